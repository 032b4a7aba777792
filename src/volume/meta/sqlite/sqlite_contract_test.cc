#include "base/posix.h"
#include "volume/meta/testing/meta_contract.h"

namespace paddleop::volume::testing {
namespace {

class SqliteDatabase final : public MetaDatabase {
 public:
  explicit SqliteDatabase(TempDir dir) : dir_(std::move(dir)) {}
  std::string url() const override { return "sqlite3://" + dir_.File("meta.db"); }

 private:
  TempDir dir_;
};

MetaFactory Sqlite() {
  return {.name = "sqlite", .make = []() -> Result<std::unique_ptr<MetaDatabase>> {
            ASSIGN_OR_RETURN(TempDir dir, TempDir::Create());
            return std::make_unique<SqliteDatabase>(std::move(dir));
          }};
}

}  // namespace

INSTANTIATE_TEST_SUITE_P(Sqlite, MetaStoreContract, ::testing::Values(Sqlite()));

}  // namespace paddleop::volume::testing
