// SPDX-License-Identifier: Apache-2.0
// Arrays in .npy files, read and written.
#include "src/base/files/npy.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "src/base/arrays/literal_util.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

std::string bytes_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream out;
  out << file.rdbuf();
  return out.str();
}

std::string npy(const std::string& header, const std::string& data, int version = 1) {
  std::string out("\x93NUMPY", 6);
  out += char(version);
  out += '\0';
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i) out += char(header.size() >> (8 * i) & 0xff);
  return out + header + data;
}

std::string message_of(const std::string& bytes, std::optional<DType> as = std::nullopt) {
  try {
    const Literal l = parse_npy(bytes, "x.npy", as);
    return "read as " + l.shape().to_string();
  } catch (const IoError& e) {
    return e.message();
  }
}

TEST(Npy, ReadsWhatNumpyWrote) {
  const fs::path folder = fs::path(TESSERA_SOURCE_DIR) / "tests/fixtures/npy";
  int files = 0;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() != ".npy") continue;
    ++files;
    const std::string stem = entry.path().stem().string();
    SCOPED_TRACE(stem);
    const std::size_t first = stem.find('_'), second = stem.find('_', first + 1);
    const DType dtype = *dtype_from_name(stem.substr(0, first));
    const std::string sizes = stem.substr(first + 1, second - first - 1);
    Dims dims;
    if (sizes != "scalar") {
      std::istringstream text(sizes);
      std::string size;
      while (std::getline(text, size, 'x')) dims.push_back(std::stoll(size));
    }
    const Literal l = read_npy(entry.path().string(), dtype);
    ASSERT_EQ(l.dtype(), dtype);
    ASSERT_EQ(l.dims(), dims);
    for (std::int64_t k = 0; k < l.element_count(); ++k) {
      const std::size_t i = std::size_t(k);
      if (dtype == DType::f8e4m3fn || dtype == DType::f8e5m2) {
        // 1, 2, 3, 4, 5, 6 in each format.
        const std::map<DType, std::vector<int>> codes{
            {DType::f8e4m3fn, {0x38, 0x40, 0x44, 0x48, 0x4a, 0x4c}},
            {DType::f8e5m2, {0x3c, 0x40, 0x42, 0x44, 0x45, 0x46}}};
        EXPECT_EQ(int(l.bytes()[i]), codes.at(dtype)[i]);
        continue;
      }
      dispatch_dtype(dtype, [&](auto tag) {
        using T = typename decltype(tag)::type;
        const T v = l.data<T>()[i];
        if constexpr (std::is_same_v<T, Pred>) {
          EXPECT_EQ(bool(v), k % 2 == 1);
        } else {
          const auto c = convert_element<std::complex<double>>(v);
          EXPECT_EQ(c.real(), double(k + 1));
          EXPECT_EQ(c.imag(), is_complex(dtype) ? -double(k) : 0);
        }
      });
    }
  }
  EXPECT_GE(files, 30);
}

TEST(Npy, WritesTheBytesThatNumpyWrites) {
  const fs::path folder = fs::path(TESSERA_SOURCE_DIR) / "tests/fixtures/npy";
  for (const char* stem : {"f32_2x3_plain", "f32_scalar_plain", "f32_5_plain", "s32_0x3_plain",
                           "pred_2x3_plain", "s8_2x3_plain", "u64_2x3_plain", "c128_2x3_plain",
                           "bf16_2x3_plain", "f8e4m3fn_2x3_plain", "s4_2x3_plain"}) {
    SCOPED_TRACE(stem);
    const std::string name(stem);
    const std::string bytes = bytes_of(folder / (name + ".npy"));
    const Literal l = parse_npy(bytes, name, *dtype_from_name(name.substr(0, name.find('_'))));
    EXPECT_EQ(to_npy(l), bytes);
  }
  EXPECT_THROW(to_npy(Literal::tuple({})), ValueError);
}

TEST(Npy, RawBytesNeedAType) {
  const std::string f = npy("{'descr': '|V2', 'fortran_order': False, 'shape': (1,), }", "ab");
  EXPECT_EQ(message_of(f, DType::bf16), "read as bf16[1]");
  EXPECT_NE(message_of(f).find("no type is requested for them"), std::string::npos);
  EXPECT_NE(message_of(f, DType::f8e5m2).find("raw bytes of 2, and f8e5m2 is requested, of 1"),
            std::string::npos);
  // As bf16 is written; numpy's own raw bytes have no byte order.
  const std::string b = npy("{'descr': '<V2', 'fortran_order': False, 'shape': (1,), }", "ab");
  EXPECT_EQ(message_of(b), "read as bf16[1]");
  // The file's own type is not overruled.
  const std::string i = npy("{'descr': '<i2', 'fortran_order': False, 'shape': (1,), }", "ab");
  EXPECT_EQ(message_of(i, DType::bf16), "read as s16[1]");
}

TEST(Npy, RefusesWhatItCannotHold) {
  for (const char* descr : {"<U5", "O", "<M8[ns]", "<f16", "|S3", "<i3", "", "<", "<f", "f4f"}) {
    const std::string f =
        npy(std::string("{'descr': '") + descr + "', 'fortran_order': False, 'shape': (0,), }", "");
    EXPECT_NE(message_of(f).find("have no counterpart"), std::string::npos) << descr;
  }
  const std::string records =
      npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (0,), }", "");
  EXPECT_NE(message_of(records).find("records"), std::string::npos);
}

TEST(Npy, AbsurdHeadersAllocateNothing) {
  auto shaped = [](const std::string& shape) {
    return npy("{'descr': '<f4', 'fortran_order': False, 'shape': " + shape + ", }", "1234");
  };
  EXPECT_EQ(message_of(shaped("(1,)")), "read as f32[1]");
  for (const char* shape : {"(2,)", "(1152921504606846976,)", "(1000000, 1000000, 1000)"}) {
    EXPECT_NE(message_of(shaped(shape)).find("cut short"), std::string::npos) << shape;
  }
  EXPECT_NE(message_of(shaped("(9223372036854775807, 9223372036854775807)")).find("64-bit"),
            std::string::npos);
  EXPECT_NE(message_of(shaped("(99999999999999999999,)")).find("64-bit"), std::string::npos);
  EXPECT_NE(message_of(shaped("(-1,)")).find("expected a size"), std::string::npos);
  std::string many = "(";
  for (int i = 0; i < 100; ++i) many += "1, ";
  EXPECT_NE(message_of(shaped(many + ")")).find("more dimensions"), std::string::npos);
  // A header that says it is longer than the file.
  std::string f(shaped("(1,)"));
  f[8] = f[9] = '\xff';
  EXPECT_NE(message_of(f).find("cut short"), std::string::npos);
  EXPECT_NE(message_of(npy("{}", "", 4)).find("format 4"), std::string::npos);
  EXPECT_NE(message_of("").find("no .npy file"), std::string::npos);
}

TEST(Npy, EveryCutAndEveryFlippedByteIsReadOrRefused) {
  const fs::path folder = fs::path(TESSERA_SOURCE_DIR) / "tests/fixtures/npy";
  for (const char* stem : {"f32_2x3_version3", "c64_2x3_fortranswapped", "bf16_2x3_plain"}) {
    const std::string whole = bytes_of(folder / (std::string(stem) + ".npy"));
    for (std::size_t n = 0; n < whole.size(); ++n) {
      EXPECT_THROW(parse_npy(whole.substr(0, n), "x", DType::bf16), IoError) << n;
    }
    for (std::size_t n = 0; n < 128; ++n) {
      for (const char c : {'\0', '\xff', '9', '(', '\''}) {
        std::string changed = whole;
        changed[n] = c;
        try {
          EXPECT_LE(parse_npy(changed, "x", DType::bf16).byte_count(), whole.size());
        } catch (const IoError&) {
        }
      }
    }
  }
}

TEST(Npy, FilesComeBackAndMissingOnesAreNamed) {
  const fs::path path = fs::temp_directory_path() / ("npy_test_" + std::to_string(getpid()));
  Literal l(Shape(DType::f64, {3, 2}));
  for (std::size_t i = 0; i < 6; ++i) l.mutable_data<double>()[i] = double(i) / 3;
  write_npy(path.string(), l);
  EXPECT_EQ(read_npy(path.string()), l);
  fs::remove(path);
  try {
    read_npy(path.string());
    FAIL();
  } catch (const IoError& e) {
    EXPECT_NE(e.message().find(path.string()), std::string::npos);
  }
  EXPECT_THROW(write_npy("/no/such/folder/x.npy", l), IoError);
}

}  // namespace
}  // namespace tessera
