#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace paddleop {

// Counters, gauges and histograms of one process, in Prometheus' text form.
//
// Names, units and label sets are constants of the room that owns them (its metrics.h) and listed
// in docs/metrics.md. Labels are bounded: never a path, a pod or a key. What a registry hands out
// lives as long as the registry; asking again with the same name and labels returns the same
// object. Thread-safe.
class MetricsRegistry {
 public:
  using Labels = std::map<std::string, std::string>;

  class Counter {
   public:
    virtual ~Counter() = default;
    virtual void Increment(double by = 1) = 0;
    virtual double Value() const = 0;
  };
  class Gauge {
   public:
    virtual ~Gauge() = default;
    virtual void Set(double value) = 0;
    virtual void Add(double by) = 0;
    virtual double Value() const = 0;
  };
  class Histogram {
   public:
    virtual ~Histogram() = default;
    virtual void Observe(double value) = 0;
  };

  MetricsRegistry();
  ~MetricsRegistry();
  MetricsRegistry(const MetricsRegistry&) = delete;
  MetricsRegistry& operator=(const MetricsRegistry&) = delete;

  Counter& AddCounter(const std::string& name, const std::string& help, const Labels& labels = {});
  Gauge& AddGauge(const std::string& name, const std::string& help, const Labels& labels = {});
  Histogram& AddHistogram(const std::string& name, const std::string& help,
                          const Labels& labels = {},
                          const std::vector<double>& buckets = LatencyBuckets());

  // The body of a /metrics reply.
  std::string Serialize() const;

  // Seconds, from 0.1 ms to 30 s.
  static const std::vector<double>& LatencyBuckets();

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace paddleop
