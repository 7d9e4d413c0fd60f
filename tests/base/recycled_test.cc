#include "base/recycled.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>

namespace weir::base {
namespace {

struct Small : Recycled<Small> {
  virtual ~Small() = default;
  int value = 7;
};
struct Larger : Small {
  std::array<char, 256> more{};
};

TEST(Recycled, TheMemoryOfTheLastObjectIsTheNextOnes) {
  auto first = std::make_unique<Small>();
  void* at = first.get();
  first->value = 8;
  first.reset();
  auto second = std::make_unique<Small>();
  if (kRecycles) {
    EXPECT_EQ(second.get(), at);
  }
  EXPECT_EQ(second->value, 7);
}

// Its memory is too small for them.
TEST(Recycled, DerivedClassesHaveMemoryOfTheirOwn) {
  std::unique_ptr<Small> small = std::make_unique<Small>();
  void* at = small.get();
  small.reset();
  std::unique_ptr<Small> larger = std::make_unique<Larger>();
  EXPECT_NE(static_cast<void*>(larger.get()), at);
  larger.reset();
  EXPECT_EQ(std::make_unique<Small>()->value, 7);
}

TEST(Recycled, AnotherThreadMayGiveBackAndEnd) {
  std::vector<std::unique_ptr<Small>> all;
  for (int i = 0; i < 600; ++i) all.push_back(std::make_unique<Small>());
  std::thread([&] { all.clear(); }).join();
  EXPECT_EQ(std::make_unique<Small>()->value, 7);
}

TEST(Spares, KeepCapacityAndNoContent) {
  SpareText::keep(std::string(300, 'x'));
  std::string text = SpareText::take();
  EXPECT_EQ(text, "");
  if (kRecycles) {
    EXPECT_GE(text.capacity(), 300u);
  }
}

TEST(Spares, KeepNothingThatIsLarge) {
  while (SpareText::take().capacity() > 15) {
  }
  SpareText::keep(std::string(5000, 'x'));
  EXPECT_LE(SpareText::take().capacity(), 15u);
}

TEST(Spares, EndWhatAVectorHolds) {
  auto held = std::make_shared<int>(1);
  SpareVector<std::shared_ptr<int>>::keep({held, held});
  EXPECT_EQ(held.use_count(), 1);
}

// Its destructor runs when the thread's spares have gone: they were asked for later.
struct Late {
  ~Late() {
    SpareText::keep(std::string(100, 'x'));
    text = SpareText::take();
    text.assign(200, 'y');
  }
  std::string text;
};

TEST(Spares, AThreadThatEndsHasNone) {
  std::thread([] {
    thread_local Late late;
    late.text = "x";
    SpareText::keep(std::string(300, 'x'));
    auto small = std::make_unique<Small>();
  }).join();
}

TEST(Spares, AreBounded) {
  for (int i = 0; i < 1000; ++i) SpareText::keep(std::string(100, 'x'));
  int kept = 0;
  while (SpareText::take().capacity() > 15) ++kept;
  EXPECT_LE(kept, int(kRecycled));
}

}  // namespace
}  // namespace weir::base
