// What every metadata engine must do, as one suite: what one allows and another refuses is a bug in
// one of them. A test program instantiates it with a factory for its engine:
//
//   INSTANTIATE_TEST_SUITE_P(Sqlite, MetaStoreContract, ::testing::Values(SqliteFactory()));
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/testing/manual_clock.h"
#include "base/testing/matchers.h"
#include "volume/meta/meta_store.h"

namespace paddleop::volume::testing {

// A private, empty database.
class MetaDatabase {
 public:
  virtual ~MetaDatabase() = default;
  // Where any number of stores can open it.
  virtual std::string url() const = 0;
};

struct MetaFactory {
  std::string name;
  std::function<Result<std::unique_ptr<MetaDatabase>>()> make;
};

inline void PrintTo(const MetaFactory& factory, std::ostream* out) { *out << factory.name; }

inline Slice Whole(std::uint64_t id, std::uint32_t size, std::uint32_t pos = 0) {
  return {.pos = pos, .id = id, .size = size, .off = 0, .len = size};
}

// Remembers which slices were deleted.
class DeletedSlices {
 public:
  MetaStore::SliceDeleter Deleter() {
    return [this](const Context&, SliceKey slice) {
      const std::scoped_lock lock(mutex_);
      slices_.push_back(slice.id);
      return Result<void>();
    };
  }
  std::vector<std::uint64_t> ids() {
    const std::scoped_lock lock(mutex_);
    return slices_;
  }

 private:
  std::mutex mutex_;
  std::vector<std::uint64_t> slices_;
};

class MetaStoreContract : public ::testing::TestWithParam<MetaFactory> {
 protected:
  void SetUp() override;

  // A setting that volumes of the tests share; trash is off unless a test turns it on.
  static Setting TestSetting();
  // Another client of the same volume, loaded.
  std::unique_ptr<MetaStore> OpenAnother(MetaOptions options = {});
  // Formats afresh with `setting` on a database of its own, and makes it store_.
  void Reformat(const Setting& setting);

  Ino MakeFile(Ino parent, const std::string& name, std::uint64_t length = 0);
  Ino MakeDir(Ino parent, const std::string& name);
  // Names of a directory, sorted.
  std::vector<std::string> List(Ino dir);
  // Statistics of every directory, link counts and the volume's usage agree with what is there.
  void ExpectConsistent();

  const Context ctx_ = Context::Background();
  const Caller root_;
  std::unique_ptr<MetaDatabase> database_;
  std::unique_ptr<MetaStore> store_;
};

}  // namespace paddleop::volume::testing
