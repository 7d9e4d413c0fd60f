// Promises: how this node's lease goes on while the bucket is away for everybody. Pure.
//
// Each beat names the nodes that may fence this one as soon as it is silent for `gone`: those that it knows, with their
// incarnations. Others may do so only when it has been silent for `stranger`, and this node goes on without the bucket
// for no longer than `alone`, which is shorter. So whoever could take what it owns is known to it: where each of them
// says that it does not reach the bucket either, nobody fences this node within the next lease, for who comes back to
// the bucket sees everybody as new (membership.h). A node that names nobody is alone, and goes on.
//
// A beat of which nobody knows whether it was taken counts as taken and as not taken.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "base/env.h"
#include "cluster/node.h"
#include "cluster/peers.h"

namespace weir::cluster {

struct Rules;

class Promises {
 public:
  // The address of a node; empty: it is not known.
  using AddressOf = std::function<std::string(const std::string& id)>;
  using Renewed = std::function<void(base::Time until)>;

  // `peers` null: nobody can be asked.
  Promises(base::Env& env, Peers* peers, const Rules& rules, AddressOf address_of, Renewed renewed)
      : env_(env), peers_(peers), rules_(rules), address_of_(std::move(address_of)), renewed_(std::move(renewed)) {}

  // A beat leaves; it was taken.
  void sent(const Node& beat);
  void taken(base::Time sent);
  // The incarnation is over: nothing makes its lease longer.
  void over();
  // Asks all for their promise.
  void ask(const Node& self);

  // Nodes that may fence this one once it is silent.
  size_t named() const { return askees_.size(); }

 private:
  using Named = std::map<std::string, uint64_t>;  // id → incarnation
  void answered(uint64_t round, uint64_t incarnation, const PeerAnswer& answer);
  void renew();

  base::Env& env_;
  Peers* const peers_;
  const Rules& rules_;
  const AddressOf address_of_;
  const Renewed renewed_;
  Named askees_, last_;                  // of all beats that may be in the bucket; of the last one that was sent
  bool may_ = false, last_may_ = false;  // those beats claim the right to go on
  std::optional<base::Time> taken_;      // when the last beat that was taken was sent
  uint64_t round_ = 0;
  size_t missing_ = 0;  // answers of this round
  base::Time asked_{};
};

}  // namespace weir::cluster
