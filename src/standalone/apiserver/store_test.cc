#include "standalone/apiserver/store.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "base/posix.h"
#include "base/testing/matchers.h"

namespace paddleop::standalone::apiserver {
namespace {

using api::Json;

class StoreTest : public ::testing::Test {
 protected:
  void Open(StoreOptions options = {}) {
    store_.reset();
    auto store = Store::Open(dir_.File("state.db"), options);
    ASSERT_OK(store);
    store_ = *std::move(store);
  }
  static Json Map(const std::string& name, const std::string& value) {
    return {{"metadata",
             {{"name", name}, {"namespace", "n"}, {"uid", name}, {"labels", {{"v", value}}}}},
            {"data", {{"k", value}}}};
  }
  Result<ObjectPtr> Put(const std::string& name, const std::string& value) {
    return store_->Put(kind_, store_->Latest(kind_, {"n", name}), Map(name, value));
  }

  const Kind& kind_ = CoreKind("ConfigMap");
  TempDir dir_ = *TempDir::Create("store");
  std::unique_ptr<Store> store_;
};

TEST_F(StoreTest, AWriteIsReadAndHasAVersionOfItsOwn) {
  Open();
  const auto one = Put("a", "1");
  ASSERT_OK(one);
  const auto two = Put("a", "2");
  ASSERT_OK(two);
  EXPECT_EQ((*two)->revision, (*one)->revision + 1);
  EXPECT_EQ(store_->revision(), (*two)->revision);
  const auto got = store_->Get(kind_, {"n", "a"});
  ASSERT_NE(got, nullptr);
  EXPECT_EQ(Json::parse(got->json)["metadata"]["resourceVersion"],
            std::to_string((*two)->revision));
  EXPECT_EQ(got->Label("v"), "2");
}

TEST_F(StoreTest, AWriteFromAnOldVersionIsAConflict) {
  Open();
  const auto one = Put("a", "1");
  ASSERT_OK(one);
  ASSERT_OK(Put("a", "2"));
  EXPECT_CODE(store_->Put(kind_, *one, Map("a", "3")), Code::kConflict);
  EXPECT_CODE(store_->Put(kind_, nullptr, Map("a", "3")), Code::kAlreadyExists);
  EXPECT_CODE(store_->Remove(*one), Code::kConflict);
}

TEST_F(StoreTest, EverythingIsThereAfterARestart) {
  Open();
  ASSERT_OK(Put("a", "1"));
  ASSERT_OK(Put("b", "2"));
  ASSERT_OK(store_->Remove(store_->Latest(kind_, {"n", "a"})));
  const auto revision = store_->revision();
  const auto text = store_->Get(kind_, {"n", "b"})->json;
  Open();
  EXPECT_EQ(store_->revision(), revision);
  EXPECT_EQ(store_->Get(kind_, {"n", "a"}), nullptr);
  EXPECT_EQ(store_->Get(kind_, {"n", "b"})->json, text);
  const auto changes = store_->ChangesAfter(revision, 10);
  ASSERT_OK(changes);
  EXPECT_TRUE(changes->empty()) << "who had seen everything goes on without a gap";
  EXPECT_CODE(store_->ChangesAfter(revision - 1, 10), Code::kExpired);
}

TEST_F(StoreTest, TheWindowEnds) {
  Open({.window = 3});
  for (int i = 0; i < 5; ++i) ASSERT_OK(Put("a", std::to_string(i)));
  const auto revision = store_->revision();
  const auto kept = store_->ChangesAfter(revision - 3, 10);
  ASSERT_OK(kept);
  ASSERT_EQ(kept->size(), 3u);
  EXPECT_EQ(kept->front().object->revision, revision - 2);
  EXPECT_CODE(store_->ChangesAfter(revision - 4, 10), Code::kExpired);
  EXPECT_CODE(store_->ChangesAfter(revision + 1, 10), Code::kExpired);
}

TEST_F(StoreTest, ADeletionTellsTheLastState) {
  Open();
  ASSERT_OK(Put("a", "1"));
  const auto before = store_->revision();
  ASSERT_OK(store_->Remove(store_->Latest(kind_, {"n", "a"})));
  const auto changes = store_->ChangesAfter(before, 10);
  ASSERT_OK(changes);
  ASSERT_EQ(changes->size(), 1u);
  EXPECT_EQ((*changes)[0].type, ChangeType::kDeleted);
  const Json json = Json::parse((*changes)[0].object->json);
  EXPECT_EQ(json["data"]["k"], "1");
  EXPECT_EQ(json["metadata"]["resourceVersion"], std::to_string(before + 1));
}

TEST_F(StoreTest, ListsAreInOrderAndByNamespace) {
  Open();
  for (const char* name : {"c", "a", "b"}) ASSERT_OK(Put(name, "1"));
  Json other = Map("a", "1");
  other["metadata"]["namespace"] = "m";
  ASSERT_OK(store_->Put(kind_, nullptr, other));
  std::vector<std::string> names;
  for (const auto& object : store_->List(kind_, "n").objects) names.push_back(object->name);
  EXPECT_THAT(names, ::testing::ElementsAre("a", "b", "c"));
  EXPECT_EQ(store_->List(kind_, "").objects.size(), 4u);
  EXPECT_TRUE(store_->List(kind_, "o").objects.empty());
}

TEST_F(StoreTest, ADamagedFileSaysSo) {
  ASSERT_OK(WriteFileAtomic(dir_.File("state.db"), std::string(8192, 'x')));
  const auto opened = Store::Open(dir_.File("state.db"));
  EXPECT_CODE(opened, Code::kCorrupt);
  EXPECT_THAT(opened.error().message(), ::testing::HasSubstr("state.db"));
}

}  // namespace
}  // namespace paddleop::standalone::apiserver
