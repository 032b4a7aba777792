#include "base/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paddleop {
namespace {

using ::testing::HasSubstr;

TEST(Metrics, PrintsWhatWasCountedInPrometheusForm) {
  MetricsRegistry registry;
  registry.AddCounter("reads_total", "Reads.", {{"tier", "memory"}}).Increment(2);
  registry.AddCounter("reads_total", "Reads.", {{"tier", "disk"}}).Increment();
  registry.AddGauge("open_files", "Open files.").Set(7);
  registry.AddHistogram("read_seconds", "Time of a read.").Observe(0.002);
  const std::string text = registry.Serialize();
  EXPECT_THAT(text, HasSubstr("reads_total{tier=\"memory\"} 2"));
  EXPECT_THAT(text, HasSubstr("reads_total{tier=\"disk\"} 1"));
  EXPECT_THAT(text, HasSubstr("open_files 7"));
  EXPECT_THAT(text, HasSubstr("read_seconds_count 1"));
}

TEST(Metrics, TheSameNameAndLabelsAreTheSameMetric) {
  MetricsRegistry registry;
  auto& a = registry.AddCounter("x_total", "X.");
  auto& b = registry.AddCounter("x_total", "X.");
  EXPECT_EQ(&a, &b);
}

}  // namespace
}  // namespace paddleop
