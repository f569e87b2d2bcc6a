// The kernel table: every row is complete, and operands that disagree with each other are refused.
#include "planner/program/kernels/kernel_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace zplan {
namespace {

using ::testing::ElementsAre;
using ::testing::MatchesRegex;

// Operands as the row writes them: every letter of a shape another size, all floating-point types
// but f64 the same.
class RowReader {
 public:
  explicit RowReader(const KernelDef& def) : types_(def.types) {
    std::istringstream words{std::string(def.shapes)};
    for (std::string word; words >> word;) {
      const std::string dims = word.substr(word.find('[') + 1);
      operands_.emplace_back();
      std::istringstream list(dims.substr(0, dims.size() - 1));
      for (std::string dim; std::getline(list, dim, ',');) operands_.back().push_back(dim);
    }
  }

  std::vector<View> views() {
    std::vector<View> result;
    for (std::size_t i = 0; i < operands_.size(); ++i) {
      View v;
      v.dtype = type(types_[i]);
      for (const std::string& dim : operands_[i])
        v.shape.dims[static_cast<std::size_t>(v.shape.rank++)] = size(dim);
      result.push_back(v);
    }
    return result;
  }

  // A size that nothing else in the row says.
  bool is_free(std::size_t operand, int dim) const {
    const std::string& own = operands_[operand][static_cast<std::size_t>(dim)];
    if (own.find('*') != std::string::npos || std::isdigit(own[0])) return false;
    const std::string letter = own.substr(0, own.find('+'));
    int uses = 0;
    for (const auto& dims : operands_)
      for (const std::string& other : dims) uses += mentions(other, letter);
    return uses == 1;
  }

 private:
  static bool mentions(const std::string& dim, const std::string& letter) {
    std::istringstream terms(std::regex_replace(dim, std::regex("[+*]"), " "));
    for (std::string term; terms >> term;)
      if (term == letter) return true;
    return false;
  }
  std::int64_t term(const std::string& text) {
    if (std::isdigit(text[0])) return std::stoll(text);
    constexpr std::int64_t kSizes[] = {5, 7, 11, 13, 17, 19, 23};
    return sizes_.emplace(text, kSizes[sizes_.size() % std::size(kSizes)]).first->second;
  }
  std::int64_t size(const std::string& dim) {
    const std::size_t op = dim.find_first_of("+*");
    if (dim == "*" || op == std::string::npos) return term(dim);
    const std::int64_t a = term(dim.substr(0, op)), b = term(dim.substr(op + 1));
    return dim[op] == '+' ? a + b : a * b;
  }
  static DType type(char letter) {
    if (letter == 'i') return DType::kI32;
    if (letter == 'k') return DType::kU8;
    return letter == 'd' ? DType::kF64 : DType::kF32;
  }

  std::string_view types_;
  std::vector<std::vector<std::string>> operands_;  // dimensions of each
  std::map<std::string, std::int64_t> sizes_;
};

std::vector<KernelId> all_kernels() {
  std::vector<KernelId> result;
  for (int i = 0; i < kKernelCount; ++i) result.push_back(static_cast<KernelId>(i));
  return result;
}

TEST(KernelTable, EveryRowIsComplete) {
  for (int i = 0; i < kKernelCount; ++i) {
    const KernelDef& row = kernel_def(static_cast<KernelId>(i));
    EXPECT_THAT(std::string(row.access), MatchesRegex("[rwua]+s?")) << name(row.id);
    EXPECT_GE(row.min_operands, 1) << name(row.id);
    EXPECT_LE(row.min_operands, row.max_operands()) << name(row.id);
    EXPECT_THAT(std::string(row.source), MatchesRegex("\\[[A-Za-z0-9-]+[^]]*\\]")) << name(row.id);
    const bool has_scratch = row.access.back() == 's';
    EXPECT_EQ(row.types.size(), row.access.size() - (has_scratch ? 1 : 0)) << name(row.id);
    EXPECT_EQ(std::count(row.shapes.begin(), row.shapes.end(), '['), std::ssize(row.types))
        << name(row.id);
  }
}

TEST(KernelTable, OperandsAsTheRowWritesThemFit) {
  for (const KernelId id : all_kernels())
    EXPECT_EQ(kernel_def(id).mismatch(RowReader(kernel_def(id)).views()), std::nullopt) << name(id);
}

// Calls `change` with each operand of each kernel but scratch; the changed operands must not fit.
template <typename Change>
void expect_refusals(const Change& change) {
  for (const KernelId id : all_kernels()) {
    const std::vector<View> operands = RowReader(kernel_def(id)).views();
    for (std::size_t i = 0; i < operands.size(); ++i) {
      for (const View& wrong : change(id, i, operands[i])) {
        std::vector<View> changed = operands;
        changed[i] = wrong;
        EXPECT_NE(kernel_def(id).mismatch(changed), std::nullopt)
            << name(id) << ", operand " << i << " of rank " << wrong.shape.rank;
      }
    }
  }
}

TEST(KernelTable, EverySizeThatAnotherOperandHasMustAgree) {
  expect_refusals([](KernelId id, std::size_t operand, const View& v) {
    const RowReader row(kernel_def(id));
    const bool any = kernel_def(id).shapes.find("[*]") != std::string_view::npos;
    std::vector<View> wrong;
    for (int d = 0; d < v.shape.rank; ++d) {
      const bool alone = any && kernel_def(id).types.size() == 1;
      if (alone || (!any && row.is_free(operand, d))) continue;
      wrong.push_back(v);
      ++wrong.back().shape.dims[static_cast<std::size_t>(d)];
    }
    return wrong;
  });
}

TEST(KernelTable, EveryRankIsChecked) {
  expect_refusals([](KernelId id, std::size_t, View v) {
    RowReader row(kernel_def(id));
    const bool takes_any = kernel_def(id).shapes.find("[*]") != std::string_view::npos;
    if (takes_any && row.views().size() == 1) return std::vector<View>{};
    if (v.shape.rank == kMaxRank) {
      v.shape = {v.shape.elements()};
    } else {
      v.shape.dims[static_cast<std::size_t>(v.shape.rank++)] = 1;
    }
    return std::vector{v};
  });
}

TEST(KernelTable, EveryTypeIsChecked) {
  expect_refusals([](KernelId, std::size_t, View v) {
    v.dtype = v.dtype == DType::kI32 ? DType::kF32 : DType::kI32;
    return std::vector{v};
  });
}

TEST(KernelTable, OperandsOfOneTypeMustAgree) {
  expect_refusals([](KernelId id, std::size_t operand, View v) {
    const std::string_view types = kernel_def(id).types;
    const bool alone = types.find(types[operand]) == types.rfind(types[operand]);
    if (alone && types[operand] != 'd') return std::vector<View>{};
    v.dtype = DType::kF16;
    return std::vector{v};
  });
}

TEST(KernelTable, EveryRowSaysWhatItsKernelComputes) {
  for (const KernelId id : all_kernels()) {
    EXPECT_GT(kernel_def(id).what.size(), 5u) << name(id);
    EXPECT_EQ(kernel_def(id).what.back(), '.') << name(id);
    EXPECT_LE(kernel_def(id).attribute_names.size(), kMaxAttributes) << name(id);
  }
}

TEST(KernelTable, OperandsHaveNamesOfTheirOwnAndThoseThatMayBeAbsentComeLast) {
  for (const KernelId id : all_kernels()) {
    std::set<std::string_view> names;
    bool absent = false;
    for (const OperandRow& row : kernel_def(id).rows) {
      EXPECT_TRUE(names.insert(row.name).second) << name(id) << " " << row.name;
      EXPECT_TRUE(row.may_be_absent || !absent || row.access == 's') << name(id) << " " << row.name;
      EXPECT_EQ(row.access == 's', row.type == 0) << name(id) << " " << row.name;
      absent = row.may_be_absent;
    }
  }
  EXPECT_EQ(kernel_def(KernelId::kAdamW).min_operands, 6);
  EXPECT_EQ(kernel_def(KernelId::kAdamW).max_operands(), 7);
  EXPECT_EQ(kernel_def(KernelId::kAdamW).access, "uuurrrw");
  EXPECT_EQ(kernel_def(KernelId::kLinearForward).access, "rrrws");
  EXPECT_EQ(kernel_def(KernelId::kLinearForward).types, "cccc");
  EXPECT_EQ(kernel_def(KernelId::kLinearForward).shapes, "x[T,k] w[k,n] bias[n] y[T,n]");
}

// An operand that is written over another one has its shape and type.
TEST(KernelTable, FewKernelsWorkInPlace) {
  std::vector<std::string> found;
  for (const KernelId id : all_kernels()) {
    const KernelDef& def = kernel_def(id);
    for (std::size_t i = 0; i < def.rows.size(); ++i) {
      std::size_t known = 0;
      for (std::size_t j = 0; j < def.rows.size(); ++j) {
        if (!def.may_lie_on(i, j)) continue;
        ++known;
        EXPECT_EQ(def.rows[i].access, 'w') << name(id);
        EXPECT_EQ(def.rows[i].shape, def.rows[j].shape) << name(id);
        EXPECT_EQ(def.rows[i].type, def.rows[j].type) << name(id);
        found.push_back(std::string(name(id)) + " " + std::string(def.rows[i].name) + "=" +
                        std::string(def.rows[j].name));
      }
      EXPECT_EQ(known, def.rows[i].in_place_of.size()) << name(id) << ": no such operand";
    }
  }
  EXPECT_THAT(found, ElementsAre("gelu_forward y=x", "residual_add out=x", "residual_add out=y",
                                 "bias_residual_add out=x", "bias_residual_add out=y",
                                 "soft_cap_forward y=x"));
}

// Two sequences of 8, 4 heads of queries and 2 of keys of 6 elements, values of 4.
TEST(KernelTable, AttentionCountsTheSizesOfKeysAndOfValues) {
  const auto view = [](Shape shape) {
    View v;
    v.shape = shape;
    return v;
  };
  const View qkv = view({2, 8, 2, 3 * 6 + 4}), out = view({2, 8, 4, 4}), lse = view({2, 4, 8});
  const View square = view({2, 4, 8, 8});
  const auto demand = [](KernelId kernel, std::vector<View> operands, AttributeValues values = {}) {
    return kernel_def(kernel).demand({operands, values});
  };
  const std::int64_t causal = 2 * 2 * 4 * (8 * 9 / 2), all = 2 * 2 * 4 * 8 * 8;
  const Demand forward = demand(KernelId::kAttentionForward, {qkv, out, lse});
  EXPECT_EQ(forward.flops.value, causal * (6 + 4));
  EXPECT_EQ(forward.attention.head_size, 5);
  EXPECT_EQ(forward.bytes.value, 4 * (2 * 8 * 44 + 2 * 8 * 16 + 2 * 4 * 8));
  const Demand backward = demand(KernelId::kAttentionBackward, {out, qkv, out, lse, qkv});
  EXPECT_EQ(backward.flops.value, causal * (3 * 6 + 2 * 4));
  EXPECT_EQ(demand(KernelId::kAttentionScores, {qkv, square}, {4}).flops.value, all * 6);
  EXPECT_EQ(demand(KernelId::kAttentionContext, {square, qkv, out}).flops.value, all * 4);
  EXPECT_EQ(demand(KernelId::kAttentionContextGradient, {out, qkv, square}).flops.value, all * 4);
  const Demand gradient =
      demand(KernelId::kAttentionScoresGradient, {square, square, out, qkv, qkv});
  EXPECT_EQ(gradient.flops.value, all * (6 + 6 + 4));
  EXPECT_EQ(gradient.product.times, 3);
}

// Of 2 x 5 rows 6 are expected: products of 2 experts read these and write theirs, or add to them.
TEST(KernelTable, GroupedProductsCountTheExpectedRows) {
  const auto view = [](const Shape& shape, Access access = Access::kRead) {
    View v;
    v.shape = shape;
    v.access = access;
    return v;
  };
  const View x = view({2, 5, 3}), w = view({2, 3, 4}), counts = view({2, 2});
  const auto bytes = [&](Access access) {
    const std::vector<View> operands{x, w, counts, view({2, 5, 4}, access)};
    return kernel_def(KernelId::kGroupedForward).demand({operands, {6}}).bytes;
  };
  EXPECT_EQ(bytes(Access::kWrite).value, 4 * (6 * (3 + 4) + 2 * 3 * 4 + 4));
  EXPECT_EQ(bytes(Access::kUpdate).value, bytes(Access::kWrite).value + 4 * 6 * 4);
}

TEST(KernelTable, AttributesThatMayNotBeLeftOut) {
  std::vector<std::string_view> found;
  for (const KernelId id : all_kernels())
    if (kernel_def(id).needs_attributes) found.push_back(name(id));
  const std::vector<std::string_view> expected{"load_batch",
                                               "cross_entropy",
                                               "adamw",
                                               "sgd",
                                               "sgd_momentum",
                                               "adamw_8bit",
                                               "muon_momentum",
                                               "muon",
                                               "adafactor_gradient",
                                               "adafactor_sums",
                                               "adafactor_factors",
                                               "adafactor_scale",
                                               "round_fp8",
                                               "rope",
                                               "scale",
                                               "attention_scores",
                                               "cross_entropy_statistics",
                                               "cross_entropy_parallel",
                                               "dropout_forward",
                                               "dropout_residual_add",
                                               "whole_norm_forward",
                                               "whole_norm_backward",
                                               "choose_experts",
                                               "place_rows",
                                               "select_rows",
                                               "grouped_forward",
                                               "grouped_input_gradient",
                                               "grouped_weight_gradient",
                                               "choose_experts_backward",
                                               "balance_experts",
                                               "count_choices",
                                               "balance_bias",
                                               "soft_cap_forward",
                                               "soft_cap_backward",
                                               "grouped_linear_forward",
                                               "grouped_linear_weight_gradient",
                                               "relative_positions",
                                               "relative_positions_gradient",
                                               "segment_forward",
                                               "segment_backward",
                                               "mamba_scan_forward",
                                               "mamba_scan_backward",
                                               "delta_scan_forward",
                                               "delta_scan_backward",
                                               "choose_keys_backward",
                                               "chosen_shares",
                                               "kimi_scan_forward",
                                               "kimi_scan_backward",
                                               "scale_columns",
                                               "load_pixels",
                                               "put_rows",
                                               "take_rows"};
  EXPECT_EQ(found, expected);
  EXPECT_THAT(kernel_def(KernelId::kRope).attribute_names,
              ElementsAre("heads", "theta", "direction", "first", "size", "stretch"));
  EXPECT_THAT(kernel_def(KernelId::kSumSquares).attribute_names,
              ElementsAre("first", "shared_from", "tensor_member", "copy"));
}

}  // namespace
}  // namespace zplan
