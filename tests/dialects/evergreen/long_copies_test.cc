// Copies of many bytes hold up nobody: they take as many turns as they need, or a worker makes them.
#include "bench.h"
#include "support/held_workers.h"

namespace weir::evergreen {
namespace {

constexpr size_t kPartBytes = size_t(3) << 20;

void add_tensor_leaf(pb::SessionMessage& m, const std::string& id, const std::string& data, int seq = 0,
                     bool more = false) {
  auto& f = *m.add_node_fragments();
  f.set_id(id), f.set_seq(seq), f.set_continued(more);
  auto& chunk = *f.mutable_chunk_fragment();
  if (seq == 0) chunk.mutable_metadata()->set_mimetype("application/x-weir-tensor; dtype=UINT8; shape=-1");
  chunk.set_data(data);
}

TEST(EvergreenLongCopies, APartOfALongMessageIsCopiedInSeveralTurns) {
  Bench t;
  auto x = t.open();
  t.send(*x, kEcho);
  pb::SessionMessage m;
  for (const char* id : {"a", "b", "c"}) add_tensor_leaf(m, id, std::string(kPartBytes, id[0]));
  t.rpc.data(*x, support::grpc_frame(m.SerializeAsString()));
  EXPECT_EQ(t.leaf(*x, "e"), "…") << "its turn is over before it is there";
  for (int i = 0; i < 50; ++i) t.later_turn();
  EXPECT_EQ(t.leaf(*x, "e"), std::string(kPartBytes, 'a'));
  t.send(*x, "actions { name: 'ECHO' inputs { name: 'x' id: 'c' } outputs { name: 'x' id: 'again' } }");
  for (int i = 0; i < 50; ++i) t.later_turn();
  EXPECT_EQ(t.leaf(*x, "again"), std::string(kPartBytes, 'c'));
}

TEST(EvergreenLongCopies, ClientsGetLongDataInMessagesThatTheirGrpcTakes) {
  Bench t;
  auto x = t.open();
  t.send(*x, kEcho);
  std::string all;
  for (size_t i = 0; all.size() < size_t(7) << 20; ++i) all += std::to_string(i);
  pb::SessionMessage m;
  add_tensor_leaf(m, "a", all, 0, true);
  t.send(*x, m);
  t.send(*x, "node_fragments { id: 'a' seq: 1 chunk_fragment { data: 'end' } }");
  for (int i = 0; i < 50; ++i) t.later_turn();
  EXPECT_EQ(t.leaf(*x, "e"), all + "end") << "numbered without a gap";
  for (const auto& frame : support::grpc_frames(x->sent)) EXPECT_LT(frame.payload.size(), size_t(4) << 20);
  for (const auto& f : t.fragments(*x)) EXPECT_EQ(f.chunk_fragment().has_metadata(), f.seq() == 0) << f.seq();
  t.send(*x, "actions { name: 'ECHO' inputs { name: 'x' id: 'e' } outputs { name: 'x' id: 'again' } }");
  for (int i = 0; i < 50; ++i) t.later_turn();
  EXPECT_EQ(t.leaf(*x, "again"), all + "end");
}

TEST(EvergreenLongCopies, ManyChildrenOfOneFragmentComeInSeveralTurns) {
  Bench t;
  auto x = t.open();
  pb::SessionMessage m;
  auto& parent = *m.add_node_fragments();
  parent.set_id("parent");
  for (int i = 0; i < 5000; ++i) parent.add_child_ids("c" + std::to_string(i));
  auto& child = *m.add_node_fragments();
  child.set_id("c4999");
  child.mutable_chunk_fragment()->mutable_metadata()->set_mimetype("text/plain");
  child.mutable_chunk_fragment()->set_data("x");
  t.send(*x, "actions { name: 'ECHO' inputs { name: 'x' id: 'c4999' } outputs { name: 'x' id: 'e' } }");
  t.rpc.data(*x, support::grpc_frame(m.SerializeAsString()));
  int turns = 0;
  for (; t.leaf(*x, "e") == "…" && turns < 50; ++turns) t.later_turn();
  EXPECT_GE(turns, 1) << "not in the turn of the message";
  EXPECT_EQ(t.leaf(*x, "e"), "x");
}

struct Joining {
  Bench t;
  support::HeldWorkers workers;
  Bench::Opened x = nullptr;
  std::string all;
  Joining() {
    msg::ModelSpec any;
    any.name = "any", any.version = "1", any.any_tensors = true;
    t.tensors.add(any);
    t.bus.set_worker_pool(workers);
    x = t.open();
  }
  void ask(size_t bytes) {
    for (int seq = 0; seq < 3; ++seq) {
      pb::SessionMessage m;
      const std::string data(bytes, char('a' + seq));
      add_tensor_leaf(m, "in", data, seq, seq < 2);
      if (seq == 0) {
        m.mutable_node_fragments(0)->mutable_chunk_fragment()->mutable_metadata()->set_mimetype(
            "application/x-weir-tensor; dtype=UINT8; shape=" + std::to_string(3 * bytes));
      }
      all += data;
      t.send(*x, m);
      for (int i = 0; i < 20; ++i) t.later_turn();
    }
    t.send(*x,
           "actions { name: 'INFER' target_spec { id: 'any' } inputs { name: 'x' id: 'in' } outputs { name: 'y' id: "
           "'out' } }");
  }
};

TEST(EvergreenLongCopies, AWorkerJoinsTheChunksOfALongTensor) {
  Joining j;
  j.ask(kPartBytes);
  ASSERT_EQ(j.workers.held.size(), 1u);
  EXPECT_TRUE(j.t.tensors["any"].held.empty());
  j.workers.work();
  j.t.turn();
  ASSERT_EQ(j.t.tensors["any"].held.size(), 1u);
  EXPECT_EQ(j.t.tensors["any"].held[0]->inputs.at(0).data.view(), j.all);
  j.t.tensors["any"].finish(j.t.tensors["any"].held[0], support::outputs("y INT32 [1] [7]"));
  j.t.turn();
  EXPECT_EQ(j.t.leaf(*j.x, "out"), std::string("\7\0\0\0", 4));
}

TEST(EvergreenLongCopies, AShortTensorIsJoinedAtOnce) {
  Joining j;
  j.ask(1000);
  EXPECT_TRUE(j.workers.held.empty());
  ASSERT_EQ(j.t.tensors["any"].held.size(), 1u);
  EXPECT_EQ(j.t.tensors["any"].held[0]->inputs.at(0).data.view(), j.all);
}

TEST(EvergreenLongCopies, ACancelledActionNeverAsksItsModel) {
  Joining j;
  j.ask(kPartBytes);
  ASSERT_EQ(j.workers.held.size(), 1u);
  j.t.send(*j.x, "actions { name: 'CANCEL' inputs { name: 'output' id: 'out' } }");
  EXPECT_EQ(j.t.leaf(*j.x, "out"), "");
  j.workers.work();
  j.t.turn();
  EXPECT_TRUE(j.t.tensors["any"].held.empty());
  EXPECT_EQ(j.t.status(*j.x), "open");
}

}  // namespace
}  // namespace weir::evergreen
