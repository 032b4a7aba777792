#include "fuse/internal/page_admission.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <list>
#include <numeric>
#include <optional>
#include <random>
#include <vector>

namespace paddleop::fuse {
namespace {

// A kernel that has room for some files and drops the one that was read longest ago.
class Kernel {
 public:
  Kernel(std::size_t files, std::size_t room) : places_(files), room_(room) {}

  void SetRoom(std::size_t room) {
    room_ = room;
    Shrink();
  }
  bool Has(std::size_t file) const { return places_[file].has_value(); }
  void Drop(std::size_t file) {
    if (!Has(file)) return;
    order_.erase(*places_[file]);
    places_[file].reset();
  }
  // True if it had the file.
  bool Read(std::size_t file) {
    const bool had = Has(file);
    Drop(file);
    order_.push_front(file);
    places_[file] = order_.begin();
    Shrink();
    return had;
  }

 private:
  void Shrink() {
    while (order_.size() > room_) Drop(order_.back());
  }

  std::list<std::size_t> order_;  // the last read first
  std::vector<std::optional<std::list<std::size_t>::iterator>> places_;
  std::size_t room_;
};

class Epochs : public ::testing::Test {
 protected:
  static constexpr std::size_t kFiles = 4000;

  void Confirm() {
    if (!admission_.suspicious()) return;
    std::size_t gone = 0, stays = 0;
    for (std::size_t file = 0; file < kFiles; ++file) {
      if (!admission_.Stays(file)) continue;
      ++stays;
      gone += kernel_.Has(file) ? 0 : 1;
    }
    admission_.Confirm(gone * 16 > stays);
  }

  // Whether the kernel had it.
  bool Read(std::size_t file) {
    if (kernel_.Read(file)) return true;
    Leave(file, admission_.Asked(file, /*beginning=*/true, /*end=*/true));
    Confirm();
    return false;
  }

  void Leave(std::size_t file, bool shall_go) {
    if (!shall_go) return;
    kernel_.Drop(file);
    admission_.Dropped(file);
  }

  // The share of the first `files` files that the kernel had.
  double Epoch(std::size_t files = kFiles) {
    std::vector<std::size_t> order(files);
    std::iota(order.begin(), order.end(), 0);
    std::ranges::shuffle(order, random_);
    std::size_t had = 0;
    for (const std::size_t file : order) had += Read(file) ? 1 : 0;
    return static_cast<double>(had) / static_cast<double>(files);
  }

  std::mt19937 random_{1};
  Kernel kernel_{kFiles, kFiles / 2};
  PageAdmission admission_{kFiles};
};

TEST_F(Epochs, FindWhatFitsIntoMemory) {
  EXPECT_EQ(Epoch(), 0);
  EXPECT_EQ(admission_.period(), 1u);
  EXPECT_GT(Epoch(), 0.35) << "15 of 100 if it were left to the kernel";
  for (int i = 0; i < 10; ++i) EXPECT_GT(Epoch(), 0.42) << i;
}

TEST_F(Epochs, AreLeftAloneWhereMemoryIsEnough) {
  kernel_.SetRoom(kFiles);
  Epoch();
  for (int i = 0; i < 50; ++i) {
    // Kernels drop a few files that were not read for a while.
    for (std::size_t k = 0; k < kFiles / 50; ++k) kernel_.Drop(random_() % kFiles);
    EXPECT_GT(Epoch(), 0.97) << i;
    EXPECT_EQ(admission_.period(), 1u) << i;
  }
}

TEST_F(Epochs, UseMemoryThatBecomesFree) {
  for (int i = 0; i < 3; ++i) Epoch();
  kernel_.SetRoom(kFiles);
  for (int i = 0; i < 20; ++i) Epoch();
  EXPECT_GT(Epoch(), 0.95);
}

TEST_F(Epochs, FollowMemoryThatShrinks) {
  kernel_.SetRoom(kFiles);
  for (int i = 0; i < 3; ++i) Epoch();
  kernel_.SetRoom(kFiles / 4);
  Epoch();
  Epoch();
  for (int i = 0; i < 5; ++i) EXPECT_GT(Epoch(), 0.18) << i << ": 3 of 100 without";
}

TEST_F(Epochs, OverOtherFilesTakeTheirPlace) {
  for (int i = 0; i < 4; ++i) Epoch();
  constexpr std::size_t kPart = kFiles / 3;  // fits
  for (int i = 0; i < 20; ++i) Epoch(kPart);
  EXPECT_GT(Epoch(kPart), 0.95);
}

TEST_F(Epochs, WithFavouritesFindThem) {
  // Half of the reads go to a tenth of the files.
  const auto some = [&] {
    const std::size_t file = random_() % 2 == 0 ? random_() % (kFiles / 10) : random_() % kFiles;
    return Read(file);
  };
  for (std::size_t i = 0; i < 10 * kFiles; ++i) some();
  std::size_t had = 0;
  for (std::size_t i = 0; i < 10 * kFiles; ++i) had += some() ? 1 : 0;
  EXPECT_GT(static_cast<double>(had) / (10 * kFiles), 0.65);
}

TEST_F(Epochs, ThatComeBackToAFileAreLeftAlone) {
  for (int i = 0; i < 2; ++i) Epoch();
  EXPECT_GT(admission_.period(), 1u);
  // Programs that take their time: the pages are gone before they have all of them.
  for (std::size_t file = 0; file < 200; ++file) {
    if (kernel_.Read(file)) continue;
    Leave(file, admission_.Asked(file, true, true));
    Leave(file, admission_.Asked(file, false, false));
    Leave(file, admission_.Asked(file, false, true));
  }
  EXPECT_EQ(admission_.period(), 1u);
  Epoch();
  EXPECT_EQ(admission_.period(), 1u) << "for a while";
}

TEST_F(Epochs, OfTwoJobsThatFollowEachOtherAreLeftAlone) {
  for (int i = 0; i < 2; ++i) Epoch();
  EXPECT_GT(admission_.period(), 1u);
  constexpr std::size_t kBehind = 100;
  for (std::size_t file = 0; file < kFiles; ++file) {
    Read(file);
    if (file >= kBehind) Read(file - kBehind);
  }
  std::size_t had = 0;
  for (std::size_t file = 0; file < 1000; ++file) {
    Read(file);
    if (file >= kBehind) had += Read(file - kBehind) ? 1 : 0;
  }
  EXPECT_GT(had, 700u) << "of 900";
}

// The kernel reads ahead, and its requests for one file are answered in any order.
TEST_F(Epochs, OverFilesOfManyPartsFindThem) {
  std::vector<std::size_t> order(kFiles);
  std::iota(order.begin(), order.end(), 0);
  std::size_t had = 0;
  for (int epoch = 0; epoch < 10; ++epoch) {
    std::ranges::shuffle(order, random_);
    for (const std::size_t file : order) {
      if (kernel_.Read(file)) {
        had += epoch >= 5 ? 1 : 0;
        continue;
      }
      std::array<int, 4> parts = {0, 1, 2, 3};
      std::ranges::shuffle(parts, random_);
      bool shall_go = false;
      for (const int part : parts) shall_go |= admission_.Asked(file, part == 0, part == 3);
      Leave(file, shall_go);
      Confirm();
    }
    if (epoch > 1) {
      EXPECT_EQ(admission_.period(), PageAdmission::kLongestPeriod) << epoch;
    }
  }
  EXPECT_GT(static_cast<double>(had) / (5 * kFiles), 0.4);
}

TEST_F(Epochs, AfterARefreshFindWhatWasThere) {
  for (int i = 0; i < 3; ++i) Epoch();
  for (int i = 0; i < 3; ++i) {
    admission_.Renumber(kFiles);
    EXPECT_GT(admission_.period(), 1u);
    EXPECT_GT(Epoch(), 0.38) << i;
  }
}

// A node may read a small part of a set.
TEST(PageAdmission, GoesByWhatIsRead) {
  PageAdmission admission(1'000'000);
  constexpr std::size_t kRead = 2000;
  // Everything comes back all the time...
  const auto read = [&] {
    for (std::size_t file = 0; file < kRead; ++file) {
      if (admission.Asked(file, true, true)) admission.Dropped(file);
      admission.Confirm(true);
    }
  };
  for (int i = 0; i < 3; ++i) read();
  EXPECT_GT(admission.period(), 1u);
  // ... until there is room for all that are let in.
  std::vector<bool> there(kRead);
  for (int i = 0; i < 16; ++i) {
    for (std::size_t file = 0; file < kRead; ++file) {
      if (there[file]) continue;
      const bool shall_go = admission.Asked(file, true, true);
      if (shall_go) admission.Dropped(file);
      there[file] = !shall_go;
      admission.Confirm(true);
    }
  }
  EXPECT_TRUE(std::ranges::all_of(there, [](bool is) { return is; }));
}

}  // namespace
}  // namespace paddleop::fuse
