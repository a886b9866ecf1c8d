// SPDX-License-Identifier: Apache-2.0
// FFT kernels on kissfft; Bluestein's algorithm for lengths with large prime factors.
#include "src/codegen/kernels/fft.h"

#include <kissfft/kissfft.hh>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>
#include <map>

#include "src/base/machine_memory.h"
#include "src/codegen/kernels/kernel_key.h"

namespace tessera::codegen {
namespace {

using runtime::KernelCall;

std::int64_t largest_factor(std::int64_t n) {
  std::int64_t largest = 1;
  for (std::int64_t p = 2; p * p <= n; ++p) {
    for (; n % p == 0; n /= p) largest = p;
  }
  return std::max(largest, n);
}

/// One transform of n elements, unscaled. A large prime factor would cost its square: such lengths
/// become a convolution of a length that is a power of two (Bluestein).
template <class T>
class Line {
 public:
  using C = std::complex<T>;

  Line(std::int64_t n, bool inverse) : n_(n) {
    if (n <= 1) return;
    if (!convolves(n)) {
      direct_ = std::make_unique<kissfft<T>>(std::size_t(n), inverse);
      writes_itself_ = largest_factor(n) > 5;
      return;
    }
    m_ = 1;
    while (m_ < 2 * n - 1) m_ *= 2;
    forward_ = std::make_unique<kissfft<T>>(std::size_t(m_), false);
    backward_ = std::make_unique<kissfft<T>>(std::size_t(m_), true);
    chirp_.resize(std::size_t(n));
    for (std::int64_t i = 0; i < n; ++i) {
      // The angle repeats with 2n: small numbers keep its digits.
      const auto square =
          std::int64_t(static_cast<unsigned __int128>(i) * std::uint64_t(i) % std::uint64_t(2 * n));
      const double angle = (inverse ? 1 : -1) * M_PI * double(square) / double(n);
      chirp_[std::size_t(i)] = C(T(std::cos(angle)), T(std::sin(angle)));
    }
    std::vector<C> filter(std::size_t(m_), C(0));
    for (std::int64_t i = 0; i < n; ++i) {
      filter[std::size_t(i)] = std::conj(chirp_[std::size_t(i)]);
      if (i > 0) filter[std::size_t(m_ - i)] = filter[std::size_t(i)];
    }
    filter_.resize(std::size_t(m_));
    forward_->transform(filter.data(), filter_.data());
  }

  Line(const Line& line) : n_(line.n_), writes_itself_(true) {
    direct_ = std::make_unique<kissfft<T>>(*line.direct_);
  }

  static bool convolves(std::int64_t n) { return n > 1 && largest_factor(n) > 64; }
  /// kissfft keeps what it works on in itself for factors that it has no code of their own for:
  /// several threads need a copy each.
  bool writes_itself() const { return writes_itself_; }

  /// in and out are different memory.
  void run(const C* in, C* out) const {
    if (n_ <= 1) {
      if (n_ == 1) out[0] = in[0];
      return;
    }
    if (direct_) {
      direct_->transform(in, out);
      return;
    }
    std::vector<C> a(std::size_t(m_), C(0)), b(static_cast<std::size_t>(m_));
    for (std::int64_t i = 0; i < n_; ++i) a[std::size_t(i)] = times(in[i], chirp_[std::size_t(i)]);
    forward_->transform(a.data(), b.data());
    for (std::int64_t i = 0; i < m_; ++i) {
      b[std::size_t(i)] = times(b[std::size_t(i)], filter_[std::size_t(i)]);
    }
    backward_->transform(b.data(), a.data());
    for (std::int64_t i = 0; i < n_; ++i) {
      out[i] = times(a[std::size_t(i)], chirp_[std::size_t(i)]) / T(m_);
    }
  }

 private:
  static C times(C a, C b) {
    return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
  }

  std::int64_t n_, m_ = 0;
  bool writes_itself_ = false;
  std::unique_ptr<kissfft<T>> direct_, forward_, backward_;
  std::vector<C> chirp_, filter_;
};

template <class T>
struct FftAttrs {
  ir::FftType type = ir::FftType::fft;
  Dims lengths;
  std::int64_t in_last = 1, out_last = 1;       ///< elements of the last dim, in and out
  std::int64_t rows = 1;                        ///< product of the lengths but the last
  std::vector<std::shared_ptr<Line<T>>> lines;  ///< by dim; equal ones are shared
  T scale = 1;
};

/// All lines along dim `d` of a [rows..., last] array.
template <class T>
void transform_dim(const FftAttrs<T>& f, std::complex<T>* data, std::size_t d, std::int64_t last) {
  std::int64_t outer = 1, inner = last;
  for (std::size_t k = 0; k < d; ++k) outer *= f.lengths[k];
  for (std::size_t k = d + 1; k + 1 < f.lengths.size(); ++k) inner *= f.lengths[k];
  const std::int64_t n = f.lengths[d];
  std::vector<std::complex<T>> in(static_cast<std::size_t>(n)), out(static_cast<std::size_t>(n));
  for (std::int64_t o = 0; o < outer; ++o) {
    for (std::int64_t i = 0; i < inner; ++i) {
      std::complex<T>* at = data + o * n * inner + i;
      for (std::int64_t k = 0; k < n; ++k) in[std::size_t(k)] = at[k * inner];
      f.lines[d]->run(in.data(), out.data());
      for (std::int64_t k = 0; k < n; ++k) at[k * inner] = out[std::size_t(k)];
    }
  }
}

template <class T>
void run_complex(const FftAttrs<T>& f, const std::complex<T>* in, std::complex<T>* out) {
  const std::size_t last = f.lengths.size() - 1;
  for (std::int64_t r = 0; r < f.rows; ++r) {
    f.lines[last]->run(in + r * f.in_last, out + r * f.in_last);
  }
  for (std::size_t d = 0; d < last; ++d) transform_dim(f, out, d, f.in_last);
  if (f.scale == T(1)) return;
  for (std::int64_t i = 0; i < f.rows * f.out_last; ++i) out[i] *= f.scale;
}

template <class T>
void run_from_real(const FftAttrs<T>& f, const T* in, std::complex<T>* out) {
  const std::size_t last = f.lengths.size() - 1;
  std::vector<std::complex<T>> a(static_cast<std::size_t>(f.in_last)), b(a.size());
  for (std::int64_t r = 0; r < f.rows; ++r) {
    std::copy_n(in + r * f.in_last, f.in_last, a.begin());
    f.lines[last]->run(a.data(), b.data());
    std::copy_n(b.begin(), f.out_last, out + r * f.out_last);
  }
  for (std::size_t d = 0; d < last; ++d) transform_dim(f, out, d, f.out_last);
}

template <class T>
void run_to_real(const FftAttrs<T>& f, const std::complex<T>* in, T* out) {
  const std::size_t last = f.lengths.size() - 1;
  const std::int64_t n = f.out_last;
  std::vector<std::complex<T>> half(in, in + f.rows * f.in_last);
  for (std::size_t d = 0; d < last; ++d) transform_dim(f, half.data(), d, f.in_last);
  std::vector<std::complex<T>> a(static_cast<std::size_t>(n)), b(a.size());
  for (std::int64_t r = 0; r < f.rows; ++r) {
    const std::complex<T>* row = half.data() + r * f.in_last;
    for (std::int64_t i = 0; i < n; ++i) {
      // The other half is given by symmetry; what is its own mirror image is real.
      a[std::size_t(i)] = i == 0 || 2 * i == n ? std::complex<T>(row[i].real(), 0)
                          : 2 * i < n          ? row[i]
                                               : std::conj(row[n - i]);
    }
    f.lines[last]->run(a.data(), b.data());
    for (std::int64_t i = 0; i < n; ++i) out[r * n + i] = b[std::size_t(i)].real() * f.scale;
  }
}

template <class T>
void run_fft(const KernelCall& call) {
  using C = std::complex<T>;
  FftAttrs<T> f = *static_cast<const FftAttrs<T>*>(call.attributes);
  for (auto& line : f.lines) {
    if (line->writes_itself()) line = std::make_shared<Line<T>>(*line);
  }
  const std::int64_t in = f.rows * f.in_last, out = f.rows * f.out_last;
  for (std::int64_t b = call.begin; b < call.end; ++b) {
    switch (f.type) {
      case ir::FftType::rfft:
        run_from_real(f, reinterpret_cast<const T*>(call.inputs[0]) + b * in,
                      reinterpret_cast<C*>(call.outputs[0]) + b * out);
        break;
      case ir::FftType::irfft:
        run_to_real(f, reinterpret_cast<const C*>(call.inputs[0]) + b * in,
                    reinterpret_cast<T*>(call.outputs[0]) + b * out);
        break;
      default:
        run_complex(f, reinterpret_cast<const C*>(call.inputs[0]) + b * in,
                    reinterpret_cast<C*>(call.outputs[0]) + b * out);
    }
  }
}

template <class T>
runtime::Kernel make_kernel(FftAttrs<T> f, bool inverse) {
  std::map<std::int64_t, std::shared_ptr<Line<T>>> made;
  for (const std::int64_t n : f.lengths) {
    auto& line = made[n];
    if (!line) line = std::make_shared<Line<T>>(n, inverse);
    f.lines.push_back(line);
  }
  return {run_fft<T>, std::make_shared<const FftAttrs<T>>(std::move(f))};
}

template <class T>
KernelDescriptor describe(const ir::Instruction& fft) {
  const auto& attrs = fft.get<ir::FftAttrs>();
  const Shape& operand = fft.operand(0)->shape;
  FftAttrs<T> f;
  f.type = attrs.type;
  f.lengths = attrs.lengths;
  f.in_last = operand.dims.back();
  f.out_last = fft.shape.dims.back();
  for (std::size_t d = 0; d + 1 < attrs.lengths.size(); ++d) f.rows *= attrs.lengths[d];
  const bool inverse = attrs.type == ir::FftType::ifft || attrs.type == ir::FftType::irfft;
  double per_batch = 0;
  for (const std::int64_t n : attrs.lengths) {
    per_batch += (Line<T>::convolves(n) ? 10 : 1) * std::log2(double(std::max<std::int64_t>(2, n)));
  }
  if (inverse) f.scale = T(1.0 / double(element_count(attrs.lengths)));
  const std::int64_t per = f.rows * f.out_last;
  KernelDescriptor kernel;
  kernel.units = per == 0 ? 0 : fft.shape.element_count() / per;
  kernel.nanoseconds = 50 + 1.5 * per_batch * double(fft.shape.element_count());
  kernel.key = kernel_key("fft", sizeof(T), f.type, f.lengths, f.in_last, f.out_last);
  kernel.make = [f = std::move(f), inverse] { return make_kernel(f, inverse); };
  return kernel;
}

}  // namespace

KernelDescriptor fft_kernel(const ir::Instruction& fft) {
  const DType t = real_type(fft.operand(0)->shape.dtype);
  const Dims& lengths = fft.get<ir::FftAttrs>().lengths;
  if (lengths.empty()) return {};
  for (const std::int64_t n : lengths) {
    // Neither its array nor its table of angles fits: whoever runs it says so.
    if (std::uint64_t(n) > machine_memory() / (2 * byte_size(t))) return {};
  }
  return t == DType::f32   ? describe<float>(fft)
         : t == DType::f64 ? describe<double>(fft)
                           : KernelDescriptor();
}

}  // namespace tessera::codegen
