#include "native/scan/statement.h"

#include <algorithm>
#include <cctype>
#include <set>
#include <string_view>

namespace ignite_strategy {
namespace {

constexpr std::int16_t kQuerySqlFields = 2004, kResourceClose = 0;
constexpr std::uint8_t kSelect = 1;
constexpr std::int32_t kPlanRows = 1024;

// The words of a query in upper case, each with whether "(" follows, without quoted names, texts and
// comments.
std::vector<std::pair<std::string, bool>> Words(std::string_view text) {
  std::vector<std::pair<std::string, bool>> words;
  for (std::size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (c == '"' || c == '\'') {
      at = std::min(text.find(c, at + 1), text.size() - 1) + 1;
    } else if (text.substr(at, 2) == "/*") {
      const std::size_t end = text.find("*/", at + 2);
      at = end == std::string_view::npos ? text.size() : end + 2;
    } else if (std::isalpha(static_cast<unsigned char>(c)) || c == '_') {
      std::string word;
      while (at < text.size() && (std::isalnum(static_cast<unsigned char>(text[at])) || text[at] == '_')) {
        word.push_back(static_cast<char>(std::toupper(static_cast<unsigned char>(text[at++]))));
      }
      words.emplace_back(std::move(word), at < text.size() && text[at] == '(');
    } else {
      ++at;
    }
  }
  return words;
}

}  // namespace

std::optional<std::string> WhyIndivisible(const std::vector<std::string>& plan) {
  static const std::set<std::string> together{"DISTINCT", "GROUP", "HAVING",    "LIMIT",  "OFFSET",
                                              "FETCH",    "UNION", "INTERSECT", "EXCEPT", "MINUS"};
  static const std::set<std::string> aggregates{
      "COUNT",      "SUM",         "AVG",     "MIN",      "MAX",     "GROUP_CONCAT", "EVERY",      "SOME",
      "STDDEV_POP", "STDDEV_SAMP", "VAR_POP", "VAR_SAMP", "BOOL_OR", "BOOL_AND",     "SELECTIVITY"};
  if (plan.size() < 2)
    return "the server runs it in one piece, over no partitioned table or a single key, so that each task "
           "might get "
           "all of its rows";
  if (plan.size() > 2)
    return "it is made of several queries (UNION, for instance), not all of them partitioned";
  int selects = 0;
  for (const auto& [word, call] : Words(plan.back())) {
    selects += word == "SELECT" ? 1 : 0;
    if (together.count(word) > 0 || (call && aggregates.count(word) > 0)) {
      return "the rows of all partitions are put together by " + word;
    }
  }
  if (selects != 1) return std::string("the rows of all partitions are put together by a query within it");
  return std::nullopt;
}

void CheckDivisible(Connection& connection, const std::string& cache, const SqlQuery& sql, const Wait& wait) {
  const std::string doing = "explaining SQL '" + sql.text.substr(0, 80) + "'";
  Writer request = CachePrefix(cache);
  request.PutTypedString(sql.schema)
      .Put(kPlanRows)
      .Put<std::int32_t>(-1)
      .PutTypedString("EXPLAIN " + sql.text);
  request.Put(sql.argument_count).PutBytes(sql.arguments.data(), sql.arguments.size());
  request.Put(kSelect);
  for (int i = 0; i < 6; ++i) request.PutBool(false);  // as the statement itself, but for lazy
  request.Put<std::int64_t>(0).PutBool(false);
  if (connection.Has(Feature::kQueryPartitions)) request.Put<std::int32_t>(-1).Put<std::int32_t>(1);
  Response response;
  try {
    response = connection.Call(kQuerySqlFields, request, doing, wait);
  } catch (const Error& error) {
    if (error.server_status() == 0) throw;
    return;  // what is wrong with it, the statement itself will tell
  }
  Reader reader = response.payload();
  const auto cursor = reader.Get<std::int64_t>();
  if (reader.Get<std::int32_t>() != 1) return;
  std::vector<std::string> plan(reader.Count(1));
  for (std::string& query : plan) query = reader.TypedString().value_or(std::string());
  if (reader.GetBool()) connection.Call(kResourceClose, Writer().Put(cursor), "closing a cursor", wait);
  std::optional<std::string> why = WhyIndivisible(plan);
  for (const auto& [word, call] : Words(sql.text)) {
    if (word == "OFFSET" && !why)
      why = "each task would leave out rows of its own (OFFSET)";  // no plan shows it
  }
  if (!why) return;
  throw Error(Code::kInvalidArgument, "SQL '" + sql.text.substr(0, 80) +
                                          "' cannot be shared by tasks that read some partitions each: " +
                                          *why + "; every_task=True runs it whole in every task");
}

}  // namespace ignite_strategy
