// One connection of a pass: reads one unit after another and hands the pages over.
#ifndef IGNITE_STRATEGY_NATIVE_SCAN_LANE_H_
#define IGNITE_STRATEGY_NATIVE_SCAN_LANE_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "native/scan/config.h"
#include "native/scan/cursor.h"
#include "native/scan/plan.h"
#include "native/scan/report.h"
#include "native/scan/watch.h"

namespace ignite_strategy {

// What a page aims at when its size is not given, and how many rows it has at the most.
constexpr double kPageBytes = 2 << 20;
constexpr std::int32_t kMaxPageRows = 16384;

// The rows that are worth about kPageBytes.
std::int32_t PageRows(double bytes_per_row);

// The memory of pages that were used, for the next ones: taking it anew costs as much as filling it.
class Frames {
 public:
  void Put(Frame frame) noexcept;
  Frame Take();
  // Pages had a large array at this offset: those to come shall have it aligned.
  void Align(std::size_t offset) noexcept { offset_ = offset; }

 private:
  std::mutex mutex_;
  std::atomic<std::size_t> offset_{0};
  std::array<Frame, 2> spare_;
  std::size_t count_ = 0;
};

struct Page : PageData {
  std::shared_ptr<PartitionReport> report;
  std::shared_ptr<Frames> frames;  // where its memory came from, and goes
};

// What a lane reads and where its pages go; implemented by Pages.
class LaneWork {
 public:
  // The next unit for this lane, one at `node` if there is a choice; nothing after the last one.
  virtual std::optional<Unit> NextUnit(int lane, const std::string& node) = 0;
  // Waits for room. False if nobody wants more.
  virtual bool Push(int lane, std::shared_ptr<const Page> page) = 0;
  virtual void Failed(const std::shared_ptr<PartitionReport>& report) = 0;
  // The address that answers now.
  virtual void Answered(const Endpoint& endpoint) = 0;

 protected:
  ~LaneWork() = default;
};

// Lives in its own thread.
class Lane {
 public:
  Lane(int index, const ScanConfig& config, std::int64_t pass, Watch* watch, LaneWork* work, Wait wait)
      : index_(index), config_(config), pass_(pass), watch_(*watch), work_(*work), wait_(std::move(wait)) {}

  // Reads until there is nothing left. Throws the error that ends the pass.
  void Run();

 private:
  struct Open {
    std::shared_ptr<PartitionReport> report;
    Query query;
    Cursor cursor;
    // Of a node's query: the cluster's, when it was about to begin, until it is known that it was the same
    // when it had begun.
    std::optional<TopologyVersion> unconfirmed;
  };

  void Read(Unit unit);
  std::string PrimaryOf(std::int32_t partition) const;
  // False if the unit cannot be read by one query: its node is out of reach, or what it is primary for is not
  // the unit.
  bool OpenUnit(const Unit& unit, bool fresh);
  void Connect(const Unit& unit, bool fresh);
  std::shared_ptr<PartitionReport> NewReport(const Unit& unit) const;
  Query MakeQuery(const Unit& unit) const;
  void OpenCursor(const Unit& unit);
  // False if the cluster changed while the unit's query began, so that it may read more or less than the
  // unit.
  bool ReadPages(const Unit& unit);
  std::shared_ptr<Page> ReceivePage();
  // Asks for the unit after this one before the last page of this one is used.
  void OpenAhead();
  void Drop() noexcept;
  // Returns if the unit is to be tried again, else throws.
  void Recover(const Unit& unit, const Error& error);
  Error Described(const Error& error) const;
  // Sets how many rows the next query's pages have, measuring the rows first if nothing is known about them.
  std::int32_t ChoosePageRows(const Query& query);

  const int index_;
  const ScanConfig& config_;
  const std::int64_t pass_;
  Watch& watch_;
  LaneWork& work_;
  const Wait wait_;
  const std::shared_ptr<Frames> frames_ = std::make_shared<Frames>();

  Lease lease_;
  std::string lease_node_;  // the node that the lease leads to; "" = whichever answered
  std::size_t endpoint_ = 0;
  std::optional<Open> open_;
  std::optional<Unit> ahead_;  // claimed; `open_` is its cursor if it is open already
  std::string doing_;
  std::shared_ptr<PartitionReport> report_;  // of the unit at hand
  bool one_by_one_ = false;                  // the partitions of a node's unit
  bool handed_out_ = false;                  // rows of the unit at hand
  bool fresh_ = false;                       // the next attempt takes no connection from the pool
  int attempts_ = 0;
  std::int64_t rows_seen_ = 0;
  std::int64_t bytes_seen_ = 0;
};

}  // namespace ignite_strategy

#endif  // IGNITE_STRATEGY_NATIVE_SCAN_LANE_H_
