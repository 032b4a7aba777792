// Field lists that SampleSet and SampleJob share.
#pragma once

#include "api/batch/sample_set.h"
#include "api/internal/meta_fields.h"

namespace paddleop::api {

template <class Io>
void Describe(Io& io, SecretReference& r) {
  io("name", r.name);
  io("namespace", r.ns);
}

template <class Io>
void Describe(Io& io, WarmupOptions& o) {
  io("paths", o.paths);
  io("partitions", o.partitions);
  if constexpr (Io::kReading) {
    // Stored option files of older runtimes nest the strategy.
    io.Nested("Strategy", "strategyName", o.strategy_name);
  }
  io.Default("strategyName", o.strategy_name, "sequence");
  io("file", o.file);
  io("threads", o.threads);
  io("batchSize", o.batch_size);
  io("shuffle", o.shuffle);
  io("dropLast", o.drop_last);
  io("epoch", o.epoch);
  io("ranks", o.ranks);
}

}  // namespace paddleop::api
