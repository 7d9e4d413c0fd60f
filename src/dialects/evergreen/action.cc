#include "dialects/evergreen/action.h"

#include <algorithm>
#include <utility>

#include "base/encoding.h"
#include "dialects/evergreen/schema.h"
#include "evergreen_config.pb.h"
#include "marshal/call_times.h"
#include "marshal/check.h"
#include "marshal/tenant.h"
#include "wire/text.h"

namespace weir::evergreen {
namespace {

using base::Code;
using base::failure;
using base::invalid;
using base::Status;

namespace v1 = ::weir::evergreen::v1;

constexpr int kMostNames = 16;              // that are tried for a child
constexpr size_t kExperimentalPerStep = 8;  // bytes of experimental parts that become JSON in one step
constexpr size_t kTextPerStep = 8;          // bytes that become tokens in one step of the TurnBudget

bool among(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::any_of(names.begin(), names.end(), [&](auto n) { return n == name; });
}

std::string listed(std::initializer_list<std::string_view> names) {
  std::string out;
  for (auto n : names) out += (out.empty() ? "" : ", ") + std::string(n);
  return out;
}

bool is_number(std::string_view text) { return !text.empty() && text.find_first_not_of("0123456789") == text.npos; }

// For a name that no action has. It fails at once, and goes to "status" as any failure does.
class UnknownAction final : public Action {
 public:
  using Action::Action;

 private:
  Status begin() override {
    std::string all;
    for (const Schema& schema : schemas())
      if (offered(schema, session_.state())) all += (all.empty() ? "" : ", ") + std::string(schema.name);
    return failure(Code::kNotFound, "there is no such action; there are " + all);
  }
  Status go_on() override { return {}; }
};

}  // namespace

std::unique_ptr<Action> make_action(Session& session, ActionRequest&& request) {
  if (const Schema* schema = find_schema(request.name)) return schema->make(session, std::move(request));
  constexpr size_t kShown = 80;
  request.name = base::cut_text(request.name, kShown);
  return std::make_unique<UnknownAction>(session, std::move(request));
}

void Output::begin(std::string mimetype, std::string role, const std::vector<Packed>& experimental) {
  metadata_ = {std::move(mimetype), std::move(role), {}, {}};
  for (const Packed& part : experimental) put_any(metadata_.other, part);
}

OutFragment Output::next(More more) const {
  OutFragment f;
  f.node = node_.id();
  f.seq = node_.next() + extra_;
  f.continued = more == More::kYes;
  return f;
}

Status Output::write(base::Bytes data, More more) {
  OutFragment f = next(more);
  f.has_chunk = true;
  f.has_metadata = f.seq == 0;
  if (f.has_metadata) f.metadata = std::move(metadata_);
  f.data = std::move(data);
  return send(std::move(f));
}

Status Output::child(std::string id, More more) {
  OutFragment f = next(more);
  f.children.push_back(std::move(id));
  return send(std::move(f));
}

Status Output::end() {
  if (node_.metadata()) return write({}, More::kNo);  // a leaf ends with an empty chunk
  return send(next(More::kNo));
}

Status Output::send(OutFragment&& out) {
  std::vector<std::string_view> children(out.children.begin(), out.children.end());
  Fragment f;
  f.continued = out.continued;
  f.children = children;
  f.has_chunk = out.has_chunk;
  f.metadata = out.has_metadata ? &out.metadata : nullptr;
  f.data = out.data;
  if (Status s = session_.graph().append(node_, std::move(f)); !s.ok()) return s;
  session_.state().turn_budget.spend(1 + out.data.size() / kBytesPerStep +
                                     out.metadata.other.size() / kExperimentalPerStep);
  session_.ttls().update(node_);
  ended_ = !out.continued;
  extra_ += session_.send(std::move(out));
  return {};
}

void Output::break_off(const Status& why) {
  OutFragment end = next(More::kNo);
  end.has_chunk = node_.metadata() != nullptr;
  ended_ = true;
  session_.send(std::move(end));
  session_.graph().fail(node_, failure(Code::kFailedPrecondition, describe_node(node_.id()) + ": " + why.text));
  session_.ttls().update(node_);
}

// It charges more than the memory: an action that waits also takes time whenever what it waits for grows.
uint64_t Action::size_of(const ActionRequest& request) {
  constexpr uint64_t kAction = 8192, kParameter = 512;
  uint64_t size = kAction + kParameter * (request.inputs.size() + request.outputs.size());
  for (const auto& config : request.configs) size += kParameter + 2 * config.value.size();
  return size;
}

Action::~Action() { release(); }

void Action::release() {
  holds_.clear();
  (void)session_.graph().memory().resize(std::exchange(kept_, 0), 0);
}

void Action::keep_charged(Hold hold) {
  if (hold) holds_.push_back(std::move(hold));
}

Status Action::keep() {
  uint64_t now = size_of(request_) + held() + holds_.capacity() * sizeof(Hold);
  Status s = session_.graph().memory().resize(kept_, now);
  if (s.ok()) kept_ = now;
  return s;
}

void Action::start() {
  const Schema* schema = find_schema(request_.name);
  Status s = keep();
  if (s.ok()) s = claim();
  if (s.ok() && schema) s = check_names(*schema, request_);
  if (s.ok()) s = begin();
  if (!s.ok()) return fail(std::move(s));
  run();
}

// "status" comes first, and after a failure the others are claimed, too: the failure is told there, and to those who
// read any of them, in whatever order the outputs are named.
Status Action::claim() {
  std::stable_partition(request_.outputs.begin(), request_.outputs.end(),
                        [](const NamedNode& named) { return named.name == kStatus; });
  Status first;
  for (const NamedNode& named : request_.outputs) {
    auto node = session_.graph().claim(named.id, this);
    if (!node) {
      if (first.ok()) first = std::move(node).error();
      continue;
    }
    session_.ttls().update(**node);
    outputs_.push_back(std::make_unique<Output>(session_, named.name, **node));
    if (named.name == kStatus && !status_) status_ = outputs_.back().get();
  }
  return first;
}

void Action::run() {
  if (over_) return;
  Status s = go_on();
  if (s.ok() && !over_) s = keep();
  if (!s.ok()) fail(std::move(s));
}

void Action::cancel() {
  if (!over_) fail(failure(Code::kCancelled, "cancelled by the client"));
}

bool Action::writes(const Node& node) const {
  return std::any_of(outputs_.begin(), outputs_.end(), [&](const auto& o) { return o->is(node); });
}

base::Result<Node*> Action::input(std::initializer_list<std::string_view> names) {
  const NamedNode* found = nullptr;
  for (const NamedNode& in : request_.inputs) {
    if (!among(in.name, names)) continue;
    if (found) return invalid("needs one input (" + listed(names) + "), got more");
    found = &in;
  }
  if (!found) return invalid("needs the input " + listed(names));
  return session_.graph().node(found->id);
}

Output* Action::output(std::initializer_list<std::string_view> names) {
  for (const auto& o : outputs_)
    if (among(o->name, names)) return o.get();
  return nullptr;
}

base::Result<Node*> Action::claim_child(const Output& output, std::string_view name) {
  const std::string id = std::string(output.node().id()) + "/" + std::string(name);
  auto node = session_.graph().claim(id, this);
  for (int n = 2; !node && node.error().code == Code::kAlreadyExists && n <= kMostNames; ++n)
    node = session_.graph().claim(id + "-" + std::to_string(n), this);
  return node;
}

const Packed* Action::config(std::string_view type) const {
  for (const auto& c : request_.configs)
    if (c.type == type) return &c;
  return nullptr;
}

Status Action::report(const Status& status) {
  v1::ActionStatus message;
  message.set_code(int(status.code));
  message.set_message(status.text);
  std::string json = "{\"code\":" + std::to_string(int(status.code)) + ",\"message\":\"";
  wire::append_json_text(json, status.text);
  json += "\"}";
  std::vector<Packed> packed{{"weir.evergreen.v1.ActionStatus", message.SerializeAsString()}};
  status_->begin(std::string(kJsonType), {}, packed);
  return status_->write(base::Bytes::adopt(std::move(json)), Output::More::kNo);
}

void Action::done() {
  over_ = true;
  release();
  session_.actions().on_action_over();
  Status s;
  if (status_) s = report({});
  if (!s.ok()) session_.abort(std::move(s));
}

void Action::fail(Status why) {
  stop();
  over_ = true;
  release();
  session_.actions().on_action_over();
  why.text = title() + ": " + why.text;
  bool asked = why.code == Code::kCancelled;  // CANCEL: what has come so far stands
  if (!status_ && !asked) return session_.abort(std::move(why));
  Status s;
  for (auto& o : outputs_) {
    if (o.get() == status_ || !o->open() || !s.ok()) continue;
    if (asked)
      s = o->end();
    else
      o->break_off(why);
  }
  if (s.ok() && status_) s = report(why);
  if (!s.ok()) session_.abort(std::move(s));
}

// --- on a model ------------------------------------------------------------------------------------------------------

Status ModelAction::find(bus::Needs needs) {
  if (!std::exchange(admitted_, true))
    if (Status s = session_.admit_action(); !s.ok()) return s;
  const bus::Catalog& catalog = session_.state().bus.catalog(marshal::models_of(session_.exchange().request()));
  std::string_view target = request_.target, version;
  if (target.starts_with("models/")) target.remove_prefix(7);
  size_t slash = target.rfind('/');
  if (slash != target.npos && is_number(target.substr(slash + 1)) && !catalog.knows(target)) {
    version = target.substr(slash + 1);  // name/3, name/versions/3
    target = target.substr(0, slash);
    if (target.ends_with("/versions")) target.remove_suffix(9);
  }
  auto found = catalog.resolve(target, version, needs);
  if (!found) return std::move(found).error();
  served_ = *found;
  if (request_.target.empty()) request_.target = served_->spec.name;
  session_.exchange().record().model = served_->spec.name;
  return {};
}

Status ModelAction::perform(std::unique_ptr<bus::OffloadTask> task, size_t bytes, bus::Admission admission) {
  if (bytes <= bus::kShortText && task->run_briefly()) {
    session_.state().turn_budget.spend(1 + bytes / kTextPerStep);
    return performed(std::move(task));
  }
  Status s = task_.send(std::move(task), bytes, *served_, session_.exchange().ticket(),
                        marshal::tenant_of(session_.exchange().request()), admission);
  note_work();
  return s;
}

Status ModelAction::submit() {
  call().model = served_->spec.name;
  call().version = served_->spec.version;
  marshal::set_caller(call(), session_.exchange());
  Status s = call_.submit(*served_, *this, session_.exchange().ticket());
  note_work();
  if (!s.ok()) stop();
  return s;
}

ModelAction::~ModelAction() {
  if (working_) session_.actions().on_work_ended();
}

bool OneInputAction::waits(std::string& missing) const {
  if (running()) return false;
  if (cursor_) missing = cursor_->missing();
  return true;
}

void ModelAction::note_work() {
  const bool worked = std::exchange(working_, running());
  if (working_ == worked) return;
  working_ ? session_.actions().on_work_begun() : session_.actions().on_work_ended();
}

void ModelAction::stop() {
  call_.abandon();
  task_.abandon();
  note_work();
}

Status ModelAction::unexpected() { return failure(Code::kInternal, "the model answered in another way than asked"); }

// The lane still has the Call, and writes when it is finished.
void ModelAction::finish_call() {
  wire::Exchange& exchange = session_.exchange();
  marshal::record_call(exchange.record(), call(), exchange.now());
  call_.finish();
  note_work();
}

void ModelAction::on_task(Status status, std::unique_ptr<bus::OffloadTask> task) {
  note_work();
  if (status.ok()) status = performed(std::move(task));
  settle(std::move(status));
}

void ModelAction::on(msg::Call& call, msg::Event&& event) {
  bool last = call_.on_event(event);
  note_work();
  if (last) marshal::record_call(session_.exchange().record(), call);
  call_.owe();
  Status s = take(std::move(event));
  if (s.ok() && last && !over() && !running()) s = unexpected();
  if (s.ok() && !over()) repay();
  settle(std::move(s));
}

// May destroy this.
void ModelAction::settle(Status status) {
  if (status.ok() && !over()) status = keep();
  if (!status.ok()) fail(std::move(status));
  session_.settle();
}

Status ModelAction::take(msg::Event&& event) {
  if (auto* o = std::get_if<msg::Outputs>(&event.what)) return outputs(std::move(*o));
  if (auto* t = std::get_if<msg::Token>(&event.what)) return token(*t);
  if (auto* d = std::get_if<msg::Done>(&event.what)) return finished(*d);
  return std::move(std::get<msg::Failed>(event.what).status);
}

}  // namespace weir::evergreen
