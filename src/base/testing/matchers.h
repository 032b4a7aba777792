// Assertions on Result<T>: they print the status when they fail.
#pragma once

#include <gtest/gtest.h>

#include "base/status.h"

namespace paddleop::testing {

template <class T>
::testing::AssertionResult IsOk(const Result<T>& result) {
  if (result) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << result.error().ToString();
}

template <class T>
::testing::AssertionResult HasCode(const Result<T>& result, Code code) {
  if (result) return ::testing::AssertionFailure() << "succeeded, expected " << CodeName(code);
  if (result.error().code() == code) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure()
         << result.error().ToString() << ", expected " << CodeName(code);
}

}  // namespace paddleop::testing

#define EXPECT_OK(expr) EXPECT_TRUE(::paddleop::testing::IsOk(expr))
#define ASSERT_OK(expr) ASSERT_TRUE(::paddleop::testing::IsOk(expr))
#define EXPECT_CODE(expr, code) EXPECT_TRUE(::paddleop::testing::HasCode(expr, code))
#define ASSERT_CODE(expr, code) ASSERT_TRUE(::paddleop::testing::HasCode(expr, code))
