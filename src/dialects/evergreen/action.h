// Action: one invocation of a named function over nodes. A session owns it from the request to its end.
//
// Each action has the output "status". If a request names it, a failure of the action is written there, as a leaf of
// type `application/x-protobuf; type=weir.evergreen.v1.ActionStatus`; the other outputs fail for the actions that read
// them, and the session goes on. Without it a failure ends the session, as the protocol requires.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bus/call_handle.h"
#include "bus/offload_handle.h"
#include "dialects/evergreen/graph/cursor.h"
#include "dialects/evergreen/message.h"
#include "dialects/evergreen/session.h"
#include "msg/call.h"

namespace weir::evergreen {

inline constexpr std::string_view kPlainText = "text/plain", kJsonType = "application/json";

// A node that an action writes. While the output is open, the node stays; afterwards DROP and a TTL may free it.
class Output {
 public:
  Output(Session& session, std::string name, Node& node)
      : name(std::move(name)), session_(session), node_(node), serial_(node.serial()) {}

  std::string name;
  // Sets the metadata of its leaf, which is sent with the first fragment.
  void begin(Metadata metadata) { metadata_ = std::move(metadata); }
  void begin(std::string mimetype, std::string role = {}, const std::vector<Packed>& experimental = {});
  using More = evergreen::More;
  // Writes the next fragment, into the graph and to the client, which may get long data as several fragments. Errors:
  // those of NodeGraph::append().
  base::Status write(base::Bytes data, More more);
  base::Status child(std::string id, More more);
  base::Status end();  // an empty final fragment
  // Ends it early: the client sees an end, and actions that read it here fail with `why`.
  void break_off(const base::Status& why);
  // It has neither been written to its end nor broken off.
  bool open() const { return !ended_; }
  const Node& node() const { return node_; }  // while it is open
  bool is(const Node& node) const { return serial_ == node.serial(); }

 private:
  OutFragment next(More more) const;
  base::Status send(OutFragment&& fragment);

  Session& session_;
  Node& node_;
  const uint64_t serial_;
  int64_t extra_ = 0;  // fragments that the client gets beyond those of the node
  bool ended_ = false;
  Metadata metadata_;
};

class Action : public CursorListener {
 public:
  Action(Session& session, ActionRequest&& request) : session_(session), request_(std::move(request)) {}
  virtual ~Action();
  Action(const Action&) = delete;

  // The charge for an action of that request before it has read anything.
  static uint64_t size_of(const ActionRequest& request);

  // Claims the outputs, then begins.
  void start();
  // Continues until it has to wait for an input, for the engine, or for the client to read.
  void run();
  // Ends it, unless it is over. Its outputs keep what has been written.
  void cancel();

  bool over() const { return over_; }
  // True if nothing works for it and it waits for an input; `missing` names the node.
  virtual bool waits(std::string& /*missing*/) const { return false; }
  // True if the node is one of the outputs.
  bool writes(const Node& node) const;
  void on_news(Cursor&) final { run(); }
  // True if it has its inputs and waits until models work on fewer actions.
  bool wants_turn() const { return wants_turn_ && !over_; }

 protected:
  virtual base::Status begin() = 0;
  virtual base::Status go_on() = 0;
  // Stops what runs elsewhere.
  virtual void stop() {}
  // The memory of what it has read and keeps until it has everything.
  virtual uint64_t held() const { return 0; }
  // Charges what it holds now. Errors: RESOURCE_EXHAUSTED.
  base::Status keep();
  // It keeps bytes of a node that may be dropped: they stay charged until it is over.
  void keep_charged(Hold hold);

  // The input of one of those names, which must be there once. Errors: INVALID_ARGUMENT.
  base::Result<Node*> input(std::initializer_list<std::string_view> names);
  Output* output(std::initializer_list<std::string_view> names);  // null: not asked for
  // A new node `<output>/<name>`; `<output>/<name>-2` and so on where the client has nodes of those names.
  base::Result<Node*> claim_child(const Output& output, std::string_view name);
  const Packed* config(std::string_view type) const;
  std::string title() const { return "action " + request_.name; }

  void done();              // all outputs are written
  void fail(base::Status);  // to the output "status", or the session ends with it

  Session& session_;
  ActionRequest request_;
  std::vector<std::unique_ptr<Output>> outputs_;
  bool wants_turn_ = false;

 private:
  base::Status claim();
  void release();
  base::Status report(const base::Status& status);

  Output* status_ = nullptr;
  std::vector<Hold> holds_;
  uint64_t kept_ = 0;  // of the session's content
  bool over_ = false;
};

// An action on a model: one Call.
class ModelAction : public Action, msg::Sink, bus::OffloadListener {
 public:
  ModelAction(Session& session, ActionRequest&& request)
      : Action(session, std::move(request)), call_(session.state().bus), task_(session.state().bus, *this) {}
  ~ModelAction() override;

 protected:
  // Looks the target up, for this turn of the loop. An action without a target keeps the model that it has found first.
  // Errors: those of Catalog::resolve().
  base::Status find(bus::Needs needs);
  const msg::ModelSpec& spec() const { return served_->spec; }
  // True when a model may begin to work on it now. If not, run() is called again when one may.
  bool may_begin() { return !(wants_turn_ = session_.actions().busy()); }
  // Long work on `bytes` of input: done at once when they are few, else by the bus's workers; then performed(),
  // which may perform() it once more.
  base::Status perform(std::unique_ptr<bus::OffloadTask> task, size_t bytes,
                       bus::Admission admission = bus::Admission::kAsked);
  msg::Call& call() { return call_.fill(); }  // until submit()
  base::Status submit();
  void stop() final;
  void finish_call();  // all that was asked for is here
  bool running() const { return call_.running() || task_.running(); }
  // The engine waits for a slow client. Before submit().
  void limit_tokens() { call_.grant(bus::kAnswerWindow); }
  void repay() {
    if (!session_.pauses_output()) call_.repay();
  }

  virtual base::Status performed(std::unique_ptr<bus::OffloadTask>) { return unexpected(); }
  virtual base::Status outputs(msg::Outputs&&) { return unexpected(); }
  virtual base::Status token(const msg::Token&) { return unexpected(); }
  virtual base::Status finished(const msg::Done&) { return unexpected(); }

 private:
  void on(msg::Call& call, msg::Event&& event) final;
  void on_task(base::Status status, std::unique_ptr<bus::OffloadTask> task) final;
  base::Status take(msg::Event&& event);
  void settle(base::Status status);
  void note_work();
  static base::Status unexpected();

  bus::Served* served_ = nullptr;  // looked up in this turn, or kept alive by the Call in flight
  bus::CallHandle call_;
  bus::OffloadHandle task_;
  bool working_ = false;  // as the session knows it
  bool admitted_ = false;
};

// An action on a model that reads one input before it asks the model.
class OneInputAction : public ModelAction {
 public:
  using ModelAction::ModelAction;
  bool waits(std::string& missing) const final;

 protected:
  std::optional<Cursor> cursor_;  // on the input, until it has been read
};

// The action of that name; where there is none, one that fails with NOT_FOUND, naming what there is.
std::unique_ptr<Action> make_action(Session& session, ActionRequest&& request);

std::unique_ptr<Action> make_echo(Session& session, ActionRequest&& request);
std::unique_ptr<Action> make_generate(Session& session, ActionRequest&& request);
std::unique_ptr<Action> make_infer(Session& session, ActionRequest&& request);
std::unique_ptr<Action> make_embed(Session& session, ActionRequest&& request);
std::unique_ptr<Action> make_tokenize(Session& session, ActionRequest&& request);
std::unique_ptr<Action> make_drop(Session& session, ActionRequest&& request);
std::unique_ptr<Action> make_set_ttl(Session& session, ActionRequest&& request);
std::unique_ptr<Action> make_cancel(Session& session, ActionRequest&& request);
std::unique_ptr<Action> make_keep(Session& session, ActionRequest&& request);
std::unique_ptr<Action> make_resume(Session& session, ActionRequest&& request);
std::unique_ptr<Action> make_list_actions(Session& session, ActionRequest&& request);

}  // namespace weir::evergreen
