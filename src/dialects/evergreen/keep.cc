// KEEP and RESUME: sessions that outlive their connection, in a cluster.
//
//   KEEP    output "session": the id of the session, once all that is complete now is kept. An error: what was kept
//           before is there still.
//   RESUME  config weir.evergreen.v1.ResumeConfig, before all else; outputs "session", and "nodes": what is there, as a
//           JSON array of ids. What the client sends behind it waits until the nodes are there.
#include "dialects/evergreen/action.h"
#include "evergreen_config.pb.h"
#include "session/session_id.h"
#include "wire/text.h"

namespace weir::evergreen {
namespace {

using base::failure;
using base::Status;

constexpr std::string_view kResumeConfig = "weir.evergreen.v1.ResumeConfig";
constexpr uint64_t kListedPerStep = 4, kListBytesPerStep = 1024;  // of the list of nodes
constexpr size_t kLongestList = 2 << 20;                          // bytes: it is one message, made in one turn

// Tells the SessionKeeper what to do, and waits for it.
class KeeperAction : public Action {
 public:
  using Action::Action;

 protected:
  SessionKeeper& keeper() { return session_.keeper(); }
  void leave_out_outputs() {
    for (const auto& out : outputs_) keeper().leave_out(out->node());
  }
  Status write_leaf(Output* out, std::string_view mimetype, std::string text) {
    if (!out) return {};
    out->begin(std::string(mimetype));
    return out->write(base::Bytes::adopt(std::move(text)), Output::More::kNo);
  }
  Status write_id() { return write_leaf(output({"session"}), kPlainText, session::text(keeper().id())); }
};

class Keep final : public KeeperAction {
 public:
  using KeeperAction::KeeperAction;

 private:
  Status begin() override {
    leave_out_outputs();
    auto save = keeper().keep();
    if (save) save_ = *save;
    return save ? Status() : save.error();
  }

  Status go_on() override {
    const auto kept = keeper().kept(save_);
    if (!kept) return {};
    if (!kept->ok()) return *kept;
    if (Status s = write_id(); !s.ok()) return s;
    done();
    return {};
  }

  uint64_t save_ = 0;
};

class Resume final : public KeeperAction {
 public:
  using KeeperAction::KeeperAction;

 private:
  Status begin() override {
    ::weir::evergreen::v1::ResumeConfig resume;
    const Packed* packed = config(kResumeConfig);
    if (!packed || !resume.ParseFromString(packed->value))
      return base::invalid("needs a " + std::string(kResumeConfig));
    const auto id = session::parse_session_id(resume.session());
    if (!id) return base::invalid("ResumeConfig.session: expected 32 lower-case hexadecimal digits");
    leave_out_outputs();
    return keeper().resume(*id);
  }

  Status go_on() override {
    if (keeper().resuming()) return {};
    if (!keeper().resumed().ok()) return keeper().resumed();
    if (Output* out = output({"nodes"})) {
      std::string list;
      if (Status s = list_nodes(list); !s.ok()) return s;
      if (Status s = write_leaf(out, kJsonType, std::move(list)); !s.ok()) return s;
    }
    if (Status s = write_id(); !s.ok()) return s;
    done();
    keeper().note_resumed();
    return {};
  }

  Status list_nodes(std::string& out) {
    const NodeGraph& graph = session_.graph();
    out = "[";
    const size_t most = graph.memory().has_room_for(kLongestList) ? kLongestList : 0;
    graph.each([&](const Node& node) {
      if (!node.complete() || keeper().leaves_out(node)) return true;
      out += out.size() > 1 ? ",\"" : "\"";
      wire::append_json_text(out, node.id());
      out += '"';
      return out.size() <= most;
    });
    out += ']';
    session_.state().turn_budget.spend(graph.nodes() / kListedPerStep + out.size() / kListBytesPerStep);
    if (out.size() <= most) return {};
    return failure(base::Code::kResourceExhausted,
                   "there is no room for the list of nodes: at most " + std::to_string(kLongestList) + " bytes");
  }
};

}  // namespace

std::unique_ptr<Action> make_keep(Session& session, ActionRequest&& request) {
  return std::make_unique<Keep>(session, std::move(request));
}
std::unique_ptr<Action> make_resume(Session& session, ActionRequest&& request) {
  return std::make_unique<Resume>(session, std::move(request));
}

}  // namespace weir::evergreen
