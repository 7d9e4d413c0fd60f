// The table of regions: what it takes in, and where it lets go of memory.
#include "dialects/oip/shared_memory/shared_regions.h"

#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "client_object.h"

namespace weir::oip {
namespace {

using base::Code;

TEST(SharedRegions, ASizeBeyondTheObjectIsNoWantOfRoom) {
  const Sharing sharing = Sharing::kEverybody;
  const uint64_t room = 1 << 20;
  SharedRegions regions(sharing, room);
  const wire::Request request;
  ClientObject object(4096);
  for (const uint64_t bytes : {uint64_t(1) << 20, uint64_t(1) << 63, UINT64_MAX}) {
    const auto refused = regions.add(request, {RegionKind::kSystem, "r", object.key(), 0, 0, bytes});
    EXPECT_EQ(refused.code, Code::kInvalidArgument) << bytes;
    EXPECT_NE(refused.text.find("reach beyond the 4096 bytes"), std::string::npos) << refused.text;
  }
}

TEST(SharedRegions, NamesHaveNoControlCharacters) {
  const Sharing sharing = Sharing::kEverybody;
  const uint64_t room = 1 << 20;
  SharedRegions regions(sharing, room);
  const wire::Request request;
  ClientObject object(4096);
  for (std::string_view name : {std::string_view("\0", 1), std::string_view("a\nb"), std::string_view("\x7f")}) {
    const auto refused = regions.add(request, {RegionKind::kSystem, std::string(name), object.key(), 0, 0, 1});
    EXPECT_EQ(refused.code, Code::kInvalidArgument);
  }
}

// Memory that says which thread destroys it, which it does not before `may_go`.
struct Watched final : SharedRegion {
  struct Going {
    std::promise<void> may_go;
    std::promise<std::thread::id> gone;
  };
  Watched(RegionRecord record, Going& going) : SharedRegion(std::move(record)), going_(going) {}
  ~Watched() override {
    going_.may_go.get_future().wait();
    going_.gone.set_value(std::this_thread::get_id());
  }
  base::Result<std::optional<base::Bytes>> alias(uint64_t, uint64_t) override { return std::optional<base::Bytes>(); }
  base::Status read(uint64_t, std::span<std::byte>) override { return {}; }
  base::Status write(uint64_t, std::span<const std::byte>) override { return {}; }
  base::Status intact() const override { return {}; }

 private:
  Going& going_;
};

TEST(SharedRegions, ARegionIsUnmappedByAThreadOfItsOwnAndItsRoomIsThereAtOnce) {
  const Sharing sharing = Sharing::kEverybody;
  const uint64_t bytes = uint64_t(4) << 30;
  const wire::Request request;
  const RegionRecord record{RegionKind::kSystem, "r", "/r", 0, 0, uint64_t(2) << 30};
  enum class Last { kName, kAll, kUser };
  for (Last last : {Last::kName, Last::kAll, Last::kUser}) {
    Watched::Going first, second;
    SharedRegions regions(sharing, bytes);
    const auto add = [&](Watched::Going& going) {
      return regions.add(request, record, [&](RegionRecord r) -> base::Result<std::unique_ptr<SharedRegion>> {
        return std::unique_ptr<SharedRegion>(std::make_unique<Watched>(std::move(r), going));
      });
    };
    ASSERT_TRUE(add(first).ok());
    RegionRange user{"r", 0, 1, nullptr};
    if (last == Last::kUser) {
      ASSERT_TRUE(regions.find(request, user).ok());
    }
    if (last == Last::kAll)
      regions.remove_all(request, RegionKind::kSystem);
    else
      regions.remove(request, RegionKind::kSystem, "r");
    user.memory.reset();
    EXPECT_TRUE(add(second).ok()) << int(last);
    first.may_go.set_value(), second.may_go.set_value();
    EXPECT_NE(first.gone.get_future().get(), std::this_thread::get_id()) << int(last);
  }
}

}  // namespace
}  // namespace weir::oip
