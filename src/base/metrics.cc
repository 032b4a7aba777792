#include "base/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <utility>

#include "base/mutex.h"

namespace paddleop {
namespace {

class CounterOf final : public MetricsRegistry::Counter {
 public:
  explicit CounterOf(prometheus::Counter& inner) : inner_(inner) {}
  void Increment(double by) override { inner_.Increment(by); }
  double Value() const override { return inner_.Value(); }

 private:
  prometheus::Counter& inner_;
};

class GaugeOf final : public MetricsRegistry::Gauge {
 public:
  explicit GaugeOf(prometheus::Gauge& inner) : inner_(inner) {}
  void Set(double value) override { inner_.Set(value); }
  void Add(double by) override { inner_.Increment(by); }
  double Value() const override { return inner_.Value(); }

 private:
  prometheus::Gauge& inner_;
};

class HistogramOf final : public MetricsRegistry::Histogram {
 public:
  explicit HistogramOf(prometheus::Histogram& inner) : inner_(inner) {}
  void Observe(double value) override { inner_.Observe(value); }

 private:
  prometheus::Histogram& inner_;
};

using Key = std::pair<std::string, MetricsRegistry::Labels>;

}  // namespace

class MetricsRegistry::State {
 public:
  // Wraps the library's object in ours once per name and labels.
  template <class Wrapper, class Map, class Make>
  auto& Get(Map& map, const std::string& name, const Labels& labels, Make make) {
    MutexLock lock(mutex_);
    auto& slot = map[Key(name, labels)];
    if (!slot) slot = std::make_unique<Wrapper>(make());
    return *slot;
  }

  prometheus::Registry registry_{prometheus::Registry::InsertBehavior::Merge};
  std::map<Key, std::unique_ptr<Counter>> counters_;
  std::map<Key, std::unique_ptr<Gauge>> gauges_;
  std::map<Key, std::unique_ptr<Histogram>> histograms_;

 private:
  Mutex mutex_;
};

MetricsRegistry::MetricsRegistry() : state_(std::make_unique<State>()) {}
MetricsRegistry::~MetricsRegistry() = default;

MetricsRegistry::Counter& MetricsRegistry::AddCounter(const std::string& name,
                                                      const std::string& help,
                                                      const Labels& labels) {
  return state_->Get<CounterOf>(state_->counters_, name, labels, [&]() -> prometheus::Counter& {
    return prometheus::BuildCounter().Name(name).Help(help).Register(state_->registry_).Add(labels);
  });
}

MetricsRegistry::Gauge& MetricsRegistry::AddGauge(const std::string& name, const std::string& help,
                                                  const Labels& labels) {
  return state_->Get<GaugeOf>(state_->gauges_, name, labels, [&]() -> prometheus::Gauge& {
    return prometheus::BuildGauge().Name(name).Help(help).Register(state_->registry_).Add(labels);
  });
}

MetricsRegistry::Histogram& MetricsRegistry::AddHistogram(const std::string& name,
                                                          const std::string& help,
                                                          const Labels& labels,
                                                          const std::vector<double>& buckets) {
  return state_->Get<HistogramOf>(state_->histograms_, name, labels,
                                  [&]() -> prometheus::Histogram& {
                                    return prometheus::BuildHistogram()
                                        .Name(name)
                                        .Help(help)
                                        .Register(state_->registry_)
                                        .Add(labels, buckets);
                                  });
}

std::string MetricsRegistry::Serialize() const {
  return prometheus::TextSerializer().Serialize(state_->registry_.Collect());
}

const std::vector<double>& MetricsRegistry::LatencyBuckets() {
  static const std::vector<double> kBuckets = {0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005,
                                               0.01,   0.025,   0.05,   0.1,   0.25,   0.5,
                                               1,      2.5,     5,      10,    30};
  return kBuckets;
}

}  // namespace paddleop
