#include "native/scan/statement.h"

#include <algorithm>
#include <cctype>
#include <set>
#include <string_view>
#include <utility>

#include "native/scan/sql_request.h"

namespace ignite_strategy {
namespace {

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

// Plans do not show it.
bool HasOffset(const std::string& text) {
  const auto words = Words(text);
  return std::any_of(words.begin(), words.end(), [](const auto& word) { return word.first == "OFFSET"; });
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
           "might get all of its rows";
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
  SqlQuery explain = sql;
  explain.text = "EXPLAIN " + sql.text;
  const std::string shown = "SQL '" + sql.text.substr(0, 80) + "'";
  const std::vector<std::string> plan = SqlTexts(connection, cache, explain, 1, "explaining " + shown, wait);
  if (plan.empty()) return;  // what is wrong with it, the statement itself will tell
  std::optional<std::string> why = WhyIndivisible(plan);
  if (!why && HasOffset(sql.text)) why = "each task would leave out rows of its own (OFFSET)";
  if (!why) return;
  throw Error(Code::kInvalidArgument, shown + " cannot be shared by tasks that read some partitions each: " +
                                          *why + "; every_task=True runs it whole in every task");
}

}  // namespace ignite_strategy
