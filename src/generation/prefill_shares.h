// PrefillShares: which prompts the tokens of a step go to that are left for prompts. Pure.
//
// More urgent levels come first. Within a level the oldest prompt has a quarter, so that shorter ones that keep coming
// do not hold it up for ever. The rest goes to tenants in turns, first to those that were given least, and of a tenant
// to the prompt of which least is left: shortest remaining processing time first (Schrage and Miller, 1966).
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "generation/sequence.h"

namespace weir::generation {

class PrefillShares {
 public:
  struct Prompt {
    Sequence* sequence = nullptr;
    uint64_t left = 0;  // tokens
    uint32_t given = 0;
  };
  // Gives `budget` tokens away, or as many as are left of all prompts. Sorts `prompts`.
  void share(std::vector<Prompt>& prompts, uint32_t budget);

 private:
  // The prompts of one tenant at one level: the shortest first.
  struct Turn {
    std::span<Prompt> prompts;
    uint64_t tenant = 0;
    uint64_t given = 0;  // to the tenant
  };
  void keep_present(std::span<const Prompt> prompts);
  void share_level(std::span<Prompt> prompts, uint32_t& budget);
  void line_up(std::span<Prompt> prompts);

  std::map<uint64_t, uint64_t> given_;  // by tenant, of those that have prompts: tokens, from an origin that moves
  std::vector<Turn> turns_;             // of one level
};

}  // namespace weir::generation
