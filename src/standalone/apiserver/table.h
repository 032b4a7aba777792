// Objects as rows: what `kubectl get` prints (meta/v1 Table).
#pragma once

#include <chrono>
#include <span>
#include <string>
#include <vector>

#include "api/meta/json.h"
#include "standalone/apiserver/stored_object.h"

namespace paddleop::standalone::apiserver {

using WallTime = std::chrono::system_clock::time_point;

// "112s", "5m3s", "4d": as kubectl writes ages.
std::string HumanDuration(std::chrono::seconds duration);

// What stands beside each row: its metadata (kubectl's wish), nothing, or all of it.
enum class RowObject { kMetadata, kNone, kObject };

// The Table without its list metadata; the caller adds what a list has.
api::Json MakeTable(const Kind& kind, std::span<const ObjectPtr> objects, RowObject with,
                    WallTime now);
std::string MakeTableText(const Kind& kind, const StoredObject& object, RowObject with,
                          WallTime now);

// The object's metadata alone: meta/v1 PartialObjectMetadata.
api::Json PartialObject(const StoredObject& object);

}  // namespace paddleop::standalone::apiserver
