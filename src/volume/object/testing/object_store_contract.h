// What every ObjectStore must do. Link paddleop::volume_object_contract and instantiate:
//
//   INSTANTIATE_TEST_SUITE_P(File, ObjectStoreContract, ::testing::Values(StoreCase{...}));
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/testing/matchers.h"
#include "volume/object/object_store.h"

namespace paddleop::volume::object::testing {

struct StoreCase {
  std::string name = {};
  // A store that is empty and that nobody else uses.
  std::function<std::unique_ptr<ObjectStore>()> open = {};
  // Whether "a" and "a/b" can both be objects, and keys may contain anything.
  bool flat_keys = true;
  // Bytes that are not UTF-8, and control characters.
  bool binary_keys = true;
  bool has_mtime = true;
  // In a part of a store the empty key is the object that is named like the prefix.
  bool empty_key = false;
};

// Waits for asynchronous operations, with a limit.
class Countdown {
 public:
  explicit Countdown(int count) : left_(count) {}
  void Down() {
    std::lock_guard lock(mutex_);
    if (--left_ == 0) zero_.notify_all();
  }
  bool Wait(std::chrono::seconds limit = std::chrono::seconds(60)) {
    std::unique_lock lock(mutex_);
    return zero_.wait_for(lock, limit, [&] { return left_ <= 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable zero_;
  int left_;
};

class ObjectStoreContract : public ::testing::TestWithParam<StoreCase> {
 protected:
  void SetUp() override {
    store_ = GetParam().open();
    ASSERT_NE(store_, nullptr);
    ASSERT_OK(store_->Create(ctx_));
  }

  Result<std::string> Read(std::string_view key, const GetOptions& options = {}) {
    auto got = store_->Get(ctx_, key, options, std::as_writable_bytes(std::span(buffer_)));
    if (!got) return std::unexpected(got.error());
    return buffer_.substr(0, got->size);
  }
  void Write(std::string_view key, std::string_view content) {
    ASSERT_OK(PutString(*store_, ctx_, key, content)) << key;
  }
  std::vector<std::string> Keys(const ListOptions& options = {}) {
    std::vector<std::string> keys;
    auto listed = store_->List(ctx_, options, [&](ObjectInfo& entry) -> Result<bool> {
      keys.push_back(entry.key);
      return true;
    });
    EXPECT_OK(listed);
    return keys;
  }

  // Bytes that do not repeat at any distance a block could be misplaced by.
  static std::string Pattern(std::size_t size) {
    std::string text;
    text.reserve(size + 16);
    for (std::uint64_t i = 1; text.size() < size; ++i) {
      const std::uint64_t word = i * 0x9e3779b97f4a7c15u;
      text.append(reinterpret_cast<const char*>(&word), sizeof(word));
    }
    text.resize(size);
    return text;
  }

  const Context ctx_ = Context::Background().WithTimeout(std::chrono::seconds(100));
  std::unique_ptr<ObjectStore> store_;
  std::string buffer_ = std::string((5 << 20) + (64 << 10), '\0');
};

inline std::string NameOfCase(const ::testing::TestParamInfo<StoreCase>& info) {
  return info.param.name;
}

}  // namespace paddleop::volume::object::testing
