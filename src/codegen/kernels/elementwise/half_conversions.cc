// SPDX-License-Identifier: Apache-2.0
// Compiled alone: it uses vector instructions that only some machines have.
#include "src/codegen/kernels/elementwise/half_conversions.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "src/codegen/kernels/elementwise/block_ops.h"
#include "src/codegen/kernels/instruction_sets.h"

namespace tessera::codegen {
namespace {

#if defined(__x86_64__)

__mmask16 lanes_of(std::int64_t left) { return __mmask16(left >= 16 ? 0xffff : (1 << left) - 1); }

// The forms with a mask, as g++ 12 warns of the insides of the others.
TESSERA_FOR_AVX512 void lift_on_vectors(DType half, const std::byte* from, std::int64_t count,
                                        float* to) {
  for (std::int64_t k = 0; k < count; k += 16) {
    const __mmask16 lanes = lanes_of(count - k);
    const __m256i bits = _mm256_maskz_loadu_epi16(lanes, from + 2 * k);
    const __m512 wide = half == DType::f16
                            ? _mm512_maskz_cvtph_ps(0xffff, bits)
                            : _mm512_castsi512_ps(_mm512_maskz_slli_epi32(
                                  0xffff, _mm512_maskz_cvtepu16_epi32(0xffff, bits), 16));
    _mm512_mask_storeu_ps(to + k, lanes, wide);
  }
}

TESSERA_FOR_AVX512 __m512i bf16_of(__m512i bits) {
  const __m512i above = _mm512_maskz_srli_epi32(0xffff, bits, 16);
  const __m512i odd = _mm512_and_si512(above, _mm512_set1_epi32(1));
  const __m512i up = _mm512_add_epi32(_mm512_set1_epi32(0x7fff), odd);
  const __m512i rounded = _mm512_maskz_srli_epi32(0xffff, _mm512_add_epi32(bits, up), 16);
  const __m512i size = _mm512_and_si512(bits, _mm512_set1_epi32(0x7fffffff));
  const __mmask16 nan = _mm512_cmpgt_epi32_mask(size, _mm512_set1_epi32(0x7f800000));
  return _mm512_mask_or_epi32(rounded, nan, above, _mm512_set1_epi32(0x40));
}

TESSERA_FOR_AVX512 void round_on_vectors(DType half, const float* from, std::int64_t count,
                                         std::byte* to) {
  for (std::int64_t k = 0; k < count; k += 16) {
    const __mmask16 lanes = lanes_of(count - k);
    const __m512 wide = _mm512_maskz_loadu_ps(lanes, from + k);
    if (half == DType::f16) {
      const __m256i bits = _mm512_maskz_cvtps_ph(0xffff, wide, _MM_FROUND_TO_NEAREST_INT);
      _mm256_mask_storeu_epi16(to + 2 * k, lanes, bits);
    } else {
      _mm512_mask_cvtepi32_storeu_epi16(to + 2 * k, lanes, bf16_of(_mm512_castps_si512(wide)));
    }
  }
}
#else
void lift_on_vectors(DType, const std::byte*, std::int64_t, float*) {}
void round_on_vectors(DType, const float*, std::int64_t, std::byte*) {}
#endif

}  // namespace

bool lifts_halves_fast() { return instruction_set() == InstructionSet::avx512; }

void lift_halves(DType half, const std::byte* from, std::int64_t count, float* to) {
  if (lifts_halves_fast()) return lift_on_vectors(half, from, count, to);
  const std::byte* in[] = {from};
  lift_block(half)({nullptr, reinterpret_cast<std::byte*>(to), in, 0, count});
}

void round_to_halves(DType half, const float* from, std::int64_t count, std::byte* to) {
  if (lifts_halves_fast()) return round_on_vectors(half, from, count, to);
  const std::byte* in[] = {reinterpret_cast<const std::byte*>(from)};
  convert_block(DType::f32, half)({nullptr, to, in, 0, count});
}

}  // namespace tessera::codegen
