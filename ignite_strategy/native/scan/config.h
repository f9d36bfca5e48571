// What a scan reads and how, as it travels in a graph: built in one process, used in another.
#ifndef IGNITE_STRATEGY_NATIVE_SCAN_CONFIG_H_
#define IGNITE_STRATEGY_NATIVE_SCAN_CONFIG_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "native/binary/columns.h"
#include "native/binary/decoder.h"
#include "native/wire/connection.h"
#include "native/wire/environment.h"

namespace ignite_strategy {

// A statement whose rows are read instead of a cache.
struct SqlQuery {
  std::string schema;
  std::string text;
  std::int32_t argument_count = 0;
  std::string arguments;             // typed values, one after another
  std::vector<std::string> columns;  // names of all columns of the result, in its order
  bool every_task = false;           // whole in every task, not over the task's partitions alone
};

struct ScanConfig {
  std::string cache;                // of an SQL query: the one whose partitions a task reads; may be empty
  std::vector<Endpoint> endpoints;  // tried in order
  bool local = false;               // only what the node itself holds
  bool use_environment = true;      // the environment of the process that runs the scan replaces arguments
  std::optional<Partitions> partitions;  // nothing = the whole cache, by one query
  // `partitions` chooses among those that the environment assigns (partitions=) rather than being replaced
  // (part=).
  bool intersect = false;
  // This process reads some partitions and others read the rest. Known where the scan runs; in no
  // description.
  bool shared = false;
  std::int32_t page_size = 0;   // rows; 0 = follows the bytes per row
  double bytes_per_row = 0;     // sampled; 0 = not known
  std::int64_t batch_size = 0;  // rows of one batch; 0 = a batch is a page or part of one
  bool drop_remainder = false;
  bool grouped = false;             // several batches at once: columns of shape [batches, batch_size, ...]
  std::int32_t parallel_reads = 1;  // connections that read at the same time
  bool deterministic = true;        // pages of several connections come in an order of their own
  std::string owners;               // who owned the partitions when this was made: see losses.h; may be empty
  Timeouts timeouts;
  SecuritySettings security;  // of all endpoints
  std::vector<ColumnSpec> columns;
  ValueType value_type;
  std::optional<SqlQuery> sql;

  std::string Where() const;  // "cache 'X'" or "SQL 'SELECT ...'", for messages

  std::string Serialize() const;
  // Throws Error(kInvalidArgument) for bytes that Serialize of this version did not make.
  static ScanConfig Parse(const std::string& bytes);
};

// Applies the rule "environment of this process > argument": cache, host, port, local, part, page size,
// assignment. Throws Error(kInvalidArgument) when nothing is left to read.
ScanConfig ApplyEnvironment(ScanConfig config, const DatasetEnvironment& environment);

// What this process reads: its environment applied, if the config wants that, and the way to speak to each
// endpoint resolved. Throws what ApplyEnvironment and SecuritySettings::Resolve throw.
ScanConfig ForThisProcess(ScanConfig config);

}  // namespace ignite_strategy

#endif  // IGNITE_STRATEGY_NATIVE_SCAN_CONFIG_H_
