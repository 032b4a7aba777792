#include "kube/cache/store.h"

#include <gmock/gmock.h>

namespace paddleop::kube {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

RawObject Object(std::string name, std::string version, std::string owner = "") {
  RawObject out;
  out.ns = "n";
  out.name = std::move(name);
  out.resource_version = std::move(version);
  if (!owner.empty()) out.owners.push_back({.uid = std::move(owner)});
  return out;
}

AnyObject Value(int value) { return std::make_shared<const int>(value); }

int ValueOf(const AnyObject& object) {
  return object ? *std::static_pointer_cast<const int>(object) : -1;
}

class StoreTest : public ::testing::Test {
 protected:
  StoreTest() {
    store_.AddIndex("owner", [](const RawObject& raw) {
      std::vector<std::string> out;
      for (const OwnerReference& owner : raw.owners) out.push_back(owner.uid);
      return out;
    });
  }
  void ListOf(const std::string& version, const std::vector<RawObject>& objects) {
    store_.BeginList(version);
    for (const RawObject& object : objects) store_.Put(object, Value(1));
    gone_ = store_.EndList();
  }

  Store store_;
  std::vector<AnyChange> gone_;
};

TEST_F(StoreTest, TellsWhatChanged) {
  const auto added = store_.Put(Object("a", "1"), Value(1));
  ASSERT_TRUE(added);
  EXPECT_EQ(added->before, nullptr);
  EXPECT_EQ(ValueOf(added->after), 1);
  const auto modified = store_.Put(Object("a", "2"), Value(2));
  ASSERT_TRUE(modified);
  EXPECT_EQ(ValueOf(modified->before), 1);
  EXPECT_EQ(ValueOf(modified->after), 2);
  EXPECT_FALSE(store_.Put(Object("a", "2"), Value(2))) << "the same again";
  EXPECT_FALSE(store_.Put(Object("a", "1"), Value(1))) << "an older one";
  const auto removed = store_.Remove(Object("a", "3"));
  ASSERT_TRUE(removed);
  EXPECT_EQ(ValueOf(removed->before), 2);
  EXPECT_EQ(removed->after, nullptr);
  EXPECT_FALSE(store_.Remove(Object("a", "3")));
}

TEST_F(StoreTest, IndexesFollow) {
  store_.Put(Object("a", "1", "x"), Value(1));
  store_.Put(Object("b", "2", "x"), Value(2));
  store_.Put(Object("c", "3"), Value(3));
  EXPECT_THAT(store_.KeysByIndex("owner", "x"),
              UnorderedElementsAre(ObjectKey{"n", "a"}, ObjectKey{"n", "b"}));
  store_.Put(Object("a", "4", "y"), Value(4));
  EXPECT_THAT(store_.KeysByIndex("owner", "x"), ElementsAre(ObjectKey{"n", "b"}));
  EXPECT_EQ(ValueOf(store_.ByIndex("owner", "y").at(0)), 4);
  store_.Remove(Object("b", "5"));
  EXPECT_THAT(store_.ByIndex("owner", "x"), IsEmpty());
}

TEST_F(StoreTest, AListRemovesWhatItDoesNotMention) {
  ListOf("5", {Object("a", "1", "x"), Object("b", "2", "x")});
  EXPECT_THAT(gone_, IsEmpty());
  ListOf("9", {Object("b", "2", "x")});
  ASSERT_EQ(gone_.size(), 1u);
  EXPECT_EQ(gone_[0].key, (ObjectKey{"n", "a"}));
  EXPECT_EQ(store_.size(), 1u);
  EXPECT_THAT(store_.KeysByIndex("owner", "x"), ElementsAre(ObjectKey{"n", "b"}));
}

TEST_F(StoreTest, LearnsOnlyWhatTheWatchHasNotPassed) {
  EXPECT_FALSE(store_.Learn(Object("a", "7"), Value(7))) << "before the first list";
  ListOf("5", {});
  EXPECT_TRUE(store_.Learn(Object("a", "7"), Value(7)));
  EXPECT_FALSE(store_.Put(Object("a", "7"), Value(7))) << "its own event is no news";
  store_.Remove(Object("a", "8"));
  store_.Seen("8");
  EXPECT_FALSE(store_.Learn(Object("a", "7"), Value(7))) << "deleted meanwhile: no ghost";
  EXPECT_EQ(store_.size(), 0u);
}

TEST_F(StoreTest, AListFromBeforeAnOwnWriteDoesNotUndoIt) {
  ListOf("5", {});
  store_.Learn(Object("a", "9"), Value(9));
  ListOf("7", {});
  EXPECT_THAT(gone_, IsEmpty());
  EXPECT_EQ(ValueOf(store_.Get({"n", "a"})), 9);
  ListOf("12", {});
  EXPECT_EQ(gone_.size(), 1u);
}

TEST_F(StoreTest, ADeletionFromBeforeAnOwnWriteDoesNotUndoIt) {
  ListOf("5", {Object("a", "4")});
  store_.Learn(Object("a", "9"), Value(9));  // deleted at 8 and created again
  EXPECT_FALSE(store_.Remove(Object("a", "8")));
  EXPECT_EQ(ValueOf(store_.Get({"n", "a"})), 9);
}

TEST_F(StoreTest, AServerThatWentBackInTimeIsBelieved) {
  ListOf("100", {Object("a", "90"), Object("b", "95")});
  ListOf("50", {Object("a", "40")});
  EXPECT_EQ(gone_.size(), 1u);
  EXPECT_EQ(store_.size(), 1u);
  EXPECT_TRUE(store_.Put(Object("a", "51"), Value(2)));
}

TEST_F(StoreTest, ListsByNamespace) {
  store_.Put(Object("a", "1"), Value(1));
  RawObject other = Object("a", "2");
  other.ns = "m";
  store_.Put(other, Value(2));
  EXPECT_EQ(store_.List("").size(), 2u);
  ASSERT_EQ(store_.List("m").size(), 1u);
  EXPECT_EQ(ValueOf(store_.List("m")[0]), 2);
}

}  // namespace
}  // namespace paddleop::kube
