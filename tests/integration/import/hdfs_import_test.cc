// Imports from a real HDFS: redirects to the data node, offsets, listings in pages.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "base/crypto.h"
#include "base/posix.h"
#include "base/testing/matchers.h"
#include "net/http_client.h"
#include "support/peer.h"
#include "volume/data/import.h"

namespace paddleop::testing {
namespace {

using volume::Volume;
using volume::data::ImportOptions;
using volume::data::ImportReport;

const Context kCtx = Context::Background();

class HdfsImport : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    auto hdfs = Peer::Start("hdfs");
    ASSERT_OK(hdfs);
    hdfs_ = new Peer(*std::move(hdfs));
  }
  static void TearDownTestSuite() { delete hdfs_; }

  void SetUp() override {
    ASSERT_NE(hdfs_, nullptr);
    http_ = *net::HttpClient::Create();
    const std::string url = "sqlite3://" + dir_.File("meta.db");
    volume::Setting setting;
    setting.name = "hdfs-target";
    setting.uuid = RandomUuid();
    setting.storage = "file";
    setting.bucket = dir_.File("blocks") + "/";
    setting.trash_days = 0;
    ASSERT_OK(FormatVolume(kCtx, url, setting, false, log_, metrics_));
    volume_ = *Volume::Open(kCtx, url, {.memory_cache_bytes = 0}, log_, metrics_);
  }

  std::string WebUrl(const std::string& path, const std::string& query) const {
    return fmt::format("http://127.0.0.1:{}/webhdfs/v1/{}?{}&user.name=root", hdfs_->Get("port"),
                       UrlEncode(path, "/"), query);
  }
  void Put(const std::string& path, const std::string& content) {
    net::HttpRequest create;
    create.method = "PUT";
    create.url = WebUrl(path, "op=CREATE&overwrite=true&permission=640");
    auto answer = http_->Do(kCtx, create);
    ASSERT_OK(answer);
    ASSERT_EQ(answer->status, 307) << answer->body;
    net::HttpRequest write;
    write.method = "PUT";
    write.url = std::string(*answer->headers.Get("Location"));
    write.body = content;
    answer = http_->Do(kCtx, write);
    ASSERT_OK(answer);
    ASSERT_EQ(answer->status, 201) << answer->body;
    files_[path] = content;
  }
  ImportReport Import(const std::string& path, const ImportOptions& options = {}) {
    auto source = volume::data::OpenSource(kCtx, hdfs_->Get("url") + path, {}, log_, metrics_);
    if (!source) {
      ImportReport failed;
      failed.result = std::unexpected(source.error());
      return failed;
    }
    return volume::data::Import(kCtx, *volume_, *source, options, log_);
  }
  std::string ReadBack(const std::string& path) {
    auto found = volume_->meta().Resolve(kCtx, {}, volume::kRootIno, path);
    if (!found) return found.error().message();
    auto opened = volume_->vfs().Open(kCtx, {}, found->ino, {});
    EXPECT_OK(opened);
    std::string content(found->attr.length, 0);
    EXPECT_OK(
        volume_->vfs().Read(kCtx, opened->handle, 0, std::as_writable_bytes(std::span(content))));
    EXPECT_OK(volume_->vfs().Release(kCtx, opened->handle));
    return content;
  }

  static Peer* hdfs_;
  TempDir dir_ = *TempDir::Create();
  Logger log_{LogLevel::kOff};
  MetricsRegistry metrics_;
  std::unique_ptr<net::HttpClient> http_;
  std::unique_ptr<Volume> volume_;
  std::map<std::string, std::string> files_;
};
Peer* HdfsImport::hdfs_ = nullptr;

TEST_F(HdfsImport, ATreeArrivesAsItIs) {
  for (std::size_t i = 0; i < 130; ++i)
    Put(fmt::format("set/a/{:03}", i), std::string(1 + i * 50, 'x'));
  Put("set/a b/\xe5\x9b\xbe.jpg", "odd name");
  Put("set/a.txt", "sorts before a/");
  Put("set/empty", "");
  std::string big((9 << 20) + 5, 0);
  for (std::size_t i = 0; i < big.size(); ++i) big[i] = static_cast<char>(i * 31 >> 3U);
  Put("set/big", big);
  const ImportReport report = Import("set", {.perms = true});
  ASSERT_OK(report.result);
  EXPECT_EQ(report.progress.failed_files, 0u)
      << report.failures[0].key << ": " << report.failures[0].error.message();
  EXPECT_EQ(report.progress.copied_files, files_.size());
  for (const auto& [path, content] : files_) {
    EXPECT_TRUE(ReadBack(path.substr(4)) == content) << path;
  }
  EXPECT_EQ(volume_->meta().Resolve(kCtx, {}, volume::kRootIno, "big")->attr.mode, 0640);

  const ImportReport again = Import("set/");
  EXPECT_EQ(again.progress.skipped_files, files_.size());
  EXPECT_EQ(again.progress.read_bytes, 0u);

  Put("set/a.txt", "changed");
  EXPECT_EQ(Import("set").progress.copied_files, 1u);
  EXPECT_EQ(ReadBack("a.txt"), "changed");

  const ImportReport one = Import("set/big", {.to = "/alone"});
  ASSERT_OK(one.result);
  EXPECT_TRUE(ReadBack("alone/big") == big);
}

TEST_F(HdfsImport, WhatIsNotThereIsNamed) {
  const ImportReport report = Import("no/such/path");
  ASSERT_FALSE(report.result);
  EXPECT_THAT(report.result.error().message(), ::testing::HasSubstr("no/such/path"));
}

}  // namespace
}  // namespace paddleop::testing
