#include "engines/llm/cpu/adapter_store.h"

#include <algorithm>

#include "base/check.h"
#include "base/log.h"
#include "base/units.h"
#include "engines/llm/cpu/kernels.h"
#include "engines/llm/cpu/thread_team.h"
#include "engines/llm/load/store.h"

namespace weir::llm {
namespace {

size_t float_bytes(size_t n) { return std::max<size_t>(n, 1) * sizeof(float); }

}  // namespace

void AdapterStore::Widths::cover(const AdapterWeights& adapter) {
  for (const auto& layer : adapter.layers) {
    gates = std::max(gates, layer.gate_up.b.outputs);
    for (const auto* pair : {&layer.qkv, &layer.out, &layer.gate_up, &layer.down}) {
      inputs = std::max(inputs, pair->a.inputs), rank = std::max(rank, pair->a.outputs);
      outputs = std::max(outputs, pair->b.outputs);
    }
  }
}

size_t AdapterStore::Table::place(uint32_t number) const {
  const auto at = std::lower_bound(adapters.begin(), adapters.end(), number,
                                   [](const Numbered& e, uint32_t n) { return e.first < n; });
  return at != adapters.end() && at->first == number ? size_t(at - adapters.begin()) : adapters.size();
}

AdapterStore::AdapterStore(Base base, std::vector<AdapterWeights> adapters)
    : base_(std::move(base)), made_with_(uint32_t(adapters.size())) {
  auto table = std::make_shared<Table>();
  uint32_t number = 0;
  for (auto& weights : adapters)
    table->adapters.emplace_back(++number, std::make_shared<const AdapterWeights>(std::move(weights)));
  table->scratch = scratch_for(*table, nullptr);
  base::check(!table->scratch || table->scratch->there(), "memory for the adapters of a step");
  table_ = std::move(table);
}

std::shared_ptr<const AdapterStore::Table> AdapterStore::table() const {
  std::lock_guard lock(mutex_);
  return table_;
}

bool AdapterStore::has(uint32_t number) const {
  const auto table = this->table();
  return number >= msg::kFirstLoadedAdapter && table->place(number) < table->adapters.size();
}

uint64_t AdapterStore::bytes() const {
  std::lock_guard lock(mutex_);
  return loaded_bytes_;
}

// That of the table before where it is wide enough: no step uses two at once.
std::shared_ptr<AdapterStore::Scratch> AdapterStore::scratch_for(const Table& table,
                                                                 const std::shared_ptr<Scratch>& before) const {
  if (table.adapters.empty()) return nullptr;
  Widths widths;
  for (const auto& [number, weights] : table.adapters) widths.cover(*weights);
  if (before && widths.inside(before->widths)) return before;
  const size_t rows = base_.rows;
  return std::make_shared<Scratch>(
      Scratch{widths, Memory(rows * activation_stride(base_.form, widths.inputs)),
              Memory(rows * activation_stride(base_.form, widths.rank)), Memory(float_bytes(rows * widths.rank)),
              Memory(float_bytes(rows * widths.outputs)), Memory(float_bytes(rows * widths.gates))});
}

base::Result<AdapterWeights> AdapterStore::read(const Source& source) const {
  auto folder = Folder::open(source.folder);
  if (!folder) return base::failure(base::Code::kNotFound, "the folder that has '" + source.path + "' is not there");
  auto adapter = Adapter::open(*folder, source.path, base_.shape);
  if (!adapter) return adapter.error();
  const uint64_t machine = machine_memory();
  uint64_t room = machine - std::min(machine, base_.bytes + bytes());
  if (base_.free_memory) room = std::min(room, base_.free_memory());
  ThreadTeam team(1);  // the model's own works at its steps
  auto weights = load_adapter(*adapter, {base_.shape, base_.form, 0}, team, room);
  if (!weights) return base::failure(weights.error().code, source.path + ": " + weights.error().text);
  return weights;
}

base::Status AdapterStore::add(uint32_t number, std::shared_ptr<const AdapterWeights> weights) {
  std::lock_guard lock(mutex_);
  auto table = std::make_shared<Table>(*table_);
  const auto at = std::lower_bound(table->adapters.begin(), table->adapters.end(), number,
                                   [](const Table::Numbered& e, uint32_t n) { return e.first < n; });
  if (number < msg::kFirstLoadedAdapter || (at != table->adapters.end() && at->first == number))
    return base::failure(base::Code::kInternal, "the number of an adapter is another one's");
  loaded_bytes_ += weights->bytes();
  table->adapters.emplace(at, number, std::move(weights));
  table->scratch = scratch_for(*table, table_->scratch);
  if (!table->scratch->there()) {
    loaded_bytes_ -= table->adapters[table->place(number)].second->bytes();
    return base::failure(base::Code::kResourceExhausted, "there is no memory for steps with the adapter");
  }
  table_ = std::move(table);
  return {};
}

void AdapterStore::remove(uint32_t number) {
  std::shared_ptr<const Table> before;  // outlives the lock: weights may end with it
  std::lock_guard lock(mutex_);
  auto table = std::make_shared<Table>(*table_);
  const size_t place = table->place(number);
  if (place == table->adapters.size()) return;
  loaded_bytes_ -= table->adapters[place].second->bytes();
  table->adapters.erase(table->adapters.begin() + ptrdiff_t(place));
  if (table->adapters.empty()) table->scratch = nullptr;
  before = std::exchange(table_, std::move(table));
}

base::Result<msg::AdapterLoader::Loaded> AdapterStore::load(const Source& source) {
  auto weights = read(source);
  if (!weights) return weights.error();
  auto kept = std::make_shared<const AdapterWeights>(std::move(*weights));
  const uint64_t bytes = kept->bytes();
  if (auto s = add(source.number, std::move(kept)); !s.ok()) return s;
  base::log::info("adapter loaded", {{"adapter", source.name}, {"memory", base::show_size(bytes)}});
  const auto self = shared_from_this();
  return Loaded{bytes, std::shared_ptr<const void>(this, [self, number = source.number, name = source.name](auto*) {
                  self->remove(number);
                  base::log::info("adapter unloaded", {{"adapter", name}});
                })};
}

}  // namespace weir::llm
