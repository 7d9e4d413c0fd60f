// Models for tests of dialects: a Catalog whose Inboxes write down each Call as text and answer by script. A test that
// uses this links marshal.
#pragma once

#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "bus/bus.h"
#include "marshal/json_tensor.h"
#include "msg/call.h"

namespace weir::support {

// "y INT32 [2] [1,2]"
inline std::string describe(const msg::Tensor& t) {
  std::string out = t.name + " " + std::string(msg::name(t.dtype)) + " " + t.shape.text() + " ";
  marshal::write_data(out, t, marshal::bytes_text(t));
  return out;
}
inline std::string describe(const msg::ParamValue& value) {
  if (auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (auto* s = std::get_if<std::string>(&value)) return "'" + *s + "'";
  std::string out;
  if (auto* i = std::get_if<int64_t>(&value)) marshal::write_number(out, *i);
  if (auto* u = std::get_if<uint64_t>(&value)) marshal::write_number(out, *u);
  if (auto* d = std::get_if<double>(&value)) marshal::write_number(out, *d);
  return out;
}
// "add/1 rows=1 id=7 priority=1 | a INT32 [1,2] [1,2] | wants y z | with k='v'"
inline std::string describe(const msg::Call& call) {
  std::string out = call.model + "/" + call.version + " rows=" + std::to_string(call.rows);
  if (!call.id.empty()) out += " id=" + call.id;
  if (call.priority) out += " priority=" + std::to_string(call.priority);
  if (call.queue_timeout.count()) out += " timeout=" + std::to_string(call.queue_timeout.count() / 1000);
  if (call.session) out += " session=" + std::to_string(call.session.low);
  for (const auto& t : call.inputs) out += " | " + describe(t);
  if (!call.outputs.empty()) out += " | wants";
  for (const auto& name : call.outputs) out += " " + name;
  if (!call.parameters.empty()) out += " | with";
  for (const auto& [name, value] : call.parameters) out += " " + name + "=" + describe(value);
  return out;
}

// The reverse: "y INT32 [2] [1,2]; z BYTES [1] ["a"]".
inline std::vector<msg::Tensor> parse_tensors(std::string_view all) {
  auto word = [](std::string_view& rest) {
    size_t space = rest.find(' ');
    std::string_view w = rest.substr(0, space);
    rest.remove_prefix(space == rest.npos ? rest.size() : space + 1);
    return w;
  };
  std::vector<msg::Tensor> out;
  while (!all.empty()) {
    size_t end = all.find("; ");
    std::string_view one = all.substr(0, end);
    all = end == all.npos ? std::string_view() : all.substr(end + 2);
    msg::Tensor& t = out.emplace_back();
    t.name = word(one);
    t.dtype = msg::dtype_from_name(word(one));
    marshal::JsonCursor shape(word(one)), data(one);
    shape.array([&] {
      marshal::JsonNumber n;
      int64_t dim;
      return shape.number(n) && n.to(dim) && t.shape.push(dim);
    });
    if (auto status = marshal::read_data(data, t, base::heap()); !status.ok()) throw std::runtime_error(status.text);
  }
  return out;
}

inline msg::Event outputs(std::string_view tensors, bool final = true) {
  return {msg::Outputs{parse_tensors(tensors), {}, final}};
}

// Writes down each Call; answers with the script, or with its own inputs, or keeps it for the test to answer.
class ScriptedInbox final : public msg::Inbox {
 public:
  std::vector<msg::Call*> held;
  std::vector<std::string> seen;
  std::vector<msg::Event> script;  // posted for each Call, if not empty
  bool echo = false;
  int pokes = 0;

  void put(msg::Call* call) override {
    seen.push_back(describe(*call));
    call->times.started = call->times.queued + std::chrono::microseconds(10);
    call->times.finished = call->times.started + std::chrono::microseconds(30);
    if (echo) return post(call, {msg::Outputs{call->inputs, {}, true}});
    if (script.empty()) return held.push_back(call);
    for (const auto& event : script) post(call, msg::Event(event));
  }
  void poke() override { ++pokes; }
  void post(msg::Call* call, msg::Event event) { call->home->post_here({call, std::move(event)}); }
  void finish(msg::Call* call, msg::Event event) {
    std::erase(held, call);
    post(call, std::move(event));
  }
};

class ScriptedModels {
 public:
  std::shared_ptr<bus::Catalog> catalog = std::make_shared<bus::Catalog>();

  ScriptedInbox& add(msg::ModelSpec spec) {
    auto served = std::make_shared<bus::Served>();
    auto inbox = std::make_unique<ScriptedInbox>();
    ScriptedInbox& scripted = *(inboxes_[spec.name] = inboxes_[spec.name + "/" + spec.version] = inbox.get());
    served->inbox = std::move(inbox);
    auto& model = catalog->models[spec.name];
    catalog->index.push_back({spec.name, spec.version, bus::ModelState::kReady, ""});
    model.versions[spec.version] = served;
    model.preferred = model.versions.rbegin()->second.get();
    served->spec = std::move(spec);
    return scripted;
  }
  // The requests to the model; nothing for one that is not there.
  std::vector<std::string> seen(const std::string& model) const {
    auto at = inboxes_.find(model);
    return at == inboxes_.end() ? std::vector<std::string>() : at->second->seen;
  }
  // "add": of the version added last; "add/1": of that one.
  ScriptedInbox& operator[](const std::string& model) { return *inboxes_.at(model); }
  // Calls that a test has left open.
  void finish_all() {
    for (auto& [name, inbox] : inboxes_)
      while (!inbox->held.empty()) inbox->finish(inbox->held.back(), {msg::Done{}});
  }

 private:
  std::map<std::string, ScriptedInbox*> inboxes_;
};

}  // namespace weir::support
