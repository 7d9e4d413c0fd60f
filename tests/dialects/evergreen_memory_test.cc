// What a session costs the server beside what it is charged for: nothing.
#include "evergreen_bench.h"
#include "marshal/pb_wire.h"

namespace weir::evergreen {
namespace {

TEST(EvergreenMemory, UnknownFieldsAreBounded) {
  auto status = [](const std::string& message) {
    Bench t;
    auto x = t.open();
    t.rpc.data(*x, support::grpc_frame(message));
    t.turn();
    return t.status(*x);
  };
  auto field = [](int number, const std::string& value) {
    std::string out;
    marshal::put_bytes(out, uint32_t(number), value);
    return out;
  };
  const std::string much = field(15, std::string(66'000, 'z')),
                    refusal = "INVALID_ARGUMENT: more than 64 KiB of unknown fields in SessionMessage";
  EXPECT_EQ(status(field(15, std::string(60'000, 'z'))), "open");
  EXPECT_EQ(status(much), refusal);
  EXPECT_EQ(status(field(1, field(1, "a") + much)), refusal) << "NodeFragment";
  EXPECT_EQ(status(field(1, field(1, "a") + field(5, much))), refusal) << "Chunk";
  EXPECT_EQ(status(field(2, field(2, "ECHO") + much)), refusal) << "Action";
  EXPECT_EQ(status(field(2, field(2, "ECHO") + field(3, much))), refusal) << "NamedParameter";
  EXPECT_EQ(status(field(2, field(2, "ECHO") + field(5, much))), refusal) << "Any";
  EXPECT_EQ(status(field(2, field(2, "ECHO") + field(6, much))), refusal) << "TargetSpec";
}

}  // namespace
}  // namespace weir::evergreen
