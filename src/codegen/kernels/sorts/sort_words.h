// SPDX-License-Identifier: Apache-2.0
// Elements of sorts as signed integers of the same order, which vectors can compare.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/codegen/kernels/sorts/key_order.h"

namespace tessera::codegen {

/// Whether values of the type take words of 4 bytes; else they take words of 8.
bool has_short_words(DType type);

struct WordsMade {
  bool ordered = true;    ///< no NaN without a place in the order: words mean nothing else
  bool unchanged = true;  ///< no zero or NaN that was replaced by another one
};
/// The words of n keys, which may be written over them. `key.program` isn't run: keys are its
/// results.
WordsMade make_words(const SortKey& key, const std::byte* keys, std::size_t n, std::int32_t* words);
WordsMade make_words(const SortKey& key, const std::byte* keys, std::size_t n, std::int64_t* words);

/// Whether words tell all bits of the keys, and have their size: those of integers do, and of
/// floats in total order.
bool words_are_whole(const SortKey& key);
/// Such words as keys again, in their place.
void unmake_words(const SortKey& key, std::size_t n, std::int32_t* words);
void unmake_words(const SortKey& key, std::size_t n, std::int64_t* words);

}  // namespace tessera::codegen
