// SPDX-License-Identifier: Apache-2.0
// Which steps of a plan go through the same rows one after the other.
// Also called: fusion groups of tiled ops.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "src/codegen/kernel_table.h"
#include "src/codegen/steps/steps_peak.h"
#include "src/runtime/plan_walk.h"

namespace tessera::codegen {

/// Steps that are looked at behind the first one.
inline constexpr std::size_t kChainWindow = 64;

class ChainFinder {
 public:
  using Block = runtime::Block;
  using SlotId = runtime::SlotId;

  /// `rematerialized`: what is made again for readers doesn't join chains of what it was made of.
  ChainFinder(const runtime::Plan& plan, const KernelTable& kernels,
              const std::set<SlotId>& rematerialized)
      : plan_(plan), kernels_(kernels), rematerialized_(rematerialized) {}

  /// Steps that may become one. Products of batches may be followed by others of their results
  /// whole: then the chain goes through matrices of the batch instead of rows.
  struct Chain {
    std::vector<std::size_t> links;
    std::int64_t matrices = 0;  ///< 0: it goes through rows
    std::int64_t rows = 0;
    std::int64_t groups = 0;     ///< of rows that are summed up; 0: there are no sums
    std::set<std::size_t> sums;  ///< links that are added up, while others go through rows
    std::set<SlotId> made;       ///< by its links, row by row
    std::set<SlotId> shared;     ///< large ones of which its links read only their rows
    /// Of the product that needs most of the chain's rows at a time: so many of all of its rows.
    std::int64_t at_once = 0, of_rows = 0;  ///< 0: there is none
    bool whole_matrices = false;            ///< these are all that a matrix has

    bool multiplies() const { return of_rows > 0; }
    /// Rows at a time that are enough for its products, which may have several for each of them.
    std::int64_t fewest_rows() const {
      return of_rows == 0 ? 1 : std::max<std::int64_t>(1, at_once * rows / of_rows);
    }
  };

  /// Which steps become one, and which must stand behind that one.
  struct Found {
    Chain chain;
    std::vector<std::size_t> behind;  ///< in order
    SlotSet late;                     ///< what depends on the chain, and is no part of it
  };

  /// The chains that begin with step `n`, each longer than the one before, by rows or, if
  /// `matrices` isn't 0, by so many matrices of a batch.
  std::vector<Found> find(const Block& block, std::size_t n, std::int64_t matrices) const;

  /// Whether a step, as a link of the chain, reads of its input `k` only what belongs to its rows,
  /// or to its matrix.
  bool reads_part(const Block& block, std::size_t n, std::size_t k, const Chain& chain) const;
  /// Parts of each group of a chain's rows.
  std::int64_t parts_of(const Chain& chain, runtime::ClassesId classes) const;

  std::int64_t bytes(SlotId s) const { return plan_.slots[std::size_t(s)].bytes; }
  runtime::ClassesId classes(SlotId s) const { return plan_.slots[std::size_t(s)].classes; }

 private:
  bool is_sibling(const runtime::KernelTask& task, const Chain& chain) const;
  struct Candidate;
  bool makes_rows(const Candidate& c) const;
  bool takes_rows(const Candidate& c, const Chain& chain) const;
  static std::int64_t rows_with(const Candidate& c, const Chain& chain);
  static std::int64_t least_rows(const Chain& chain);
  bool fit_blocks(const Candidate& c, Chain* chain) const;
  bool add(const Block& block, std::size_t n, Chain* chain) const;
  std::optional<std::size_t> maker_of(const Block& block, std::size_t first, std::size_t n,
                                      SlotId s) const;
  void add_makers(const Block& block, std::size_t first, std::size_t n, const Chain& chain,
                  std::set<std::size_t>* makers) const;
  std::set<std::size_t> before(const Block& block, std::size_t first, std::size_t n) const;
  std::optional<std::vector<std::size_t>> depending(const Block& block, std::size_t first,
                                                    std::size_t last, const Chain& chain,
                                                    SlotSet* late) const;
  bool add_fed(const Block& block, std::size_t first, std::size_t n, Found* found) const;

  const runtime::Plan& plan_;
  const KernelTable& kernels_;
  const std::set<SlotId>& rematerialized_;
};

}  // namespace tessera::codegen
