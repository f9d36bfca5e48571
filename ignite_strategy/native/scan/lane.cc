#include "native/scan/lane.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "native/scan/statement.h"

namespace ignite_strategy {
namespace {

// How long a dropped pass may take to leave the connection fit for reuse.
constexpr Millis kCloseLimit{2000};
// Rows of the page that measures rows of unknown size.
constexpr std::int32_t kProbeRows = 16;
// How often a unit is begun again, beside once per configured address.
constexpr int kMoreAttempts = 4;
// How long the cluster may take to notice that a node has died: Ignite's own limit is 10 s, but a killed
// process is noticed at once. The shorter one serves a pass that fails anyway, to say why.
constexpr Millis kNoticeLimit{12000}, kReasonLimit{3000};
// A server's error is put down to a node's leaving if that shows within this.
constexpr Millis kBlameLimit{1000};
// Of pages whose rows the user has chosen: the server holds a whole page in memory.
constexpr double kMostPageBytes = 64 << 20;
constexpr double kFewRows = 4;
constexpr std::int32_t kFailed = 1, kInvalidNodeState = 10;

bool Contains(const Error& error, const char* text) {
  return error.message().find(text) != std::string::npos;
}

}  // namespace

std::int32_t PageRows(double bytes_per_row) {
  const double rows = std::floor(kPageBytes / std::max(bytes_per_row, 1.0));
  // Large rows come faster one by one: the next is on its way while one is handed on.
  if (rows < kFewRows) return 1;
  return static_cast<std::int32_t>(std::clamp(rows, 1.0, static_cast<double>(kMaxPageRows)));
}

void Frames::Put(Frame frame) noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (count_ < spare_.size()) spare_[count_++] = std::move(frame);
}

Frame Frames::Take() {
  const std::lock_guard<std::mutex> lock(mutex_);
  Frame frame = count_ == 0 ? Frame() : std::move(spare_[--count_]);
  frame.Shift(Frame::kAlignment - offset_ % Frame::kAlignment);
  return frame;
}

void Lane::Run() {
  try {
    while (true) {
      std::optional<Unit> unit = std::exchange(ahead_, std::nullopt);
      if (!unit) unit = work_.NextUnit(index_, lease_node_);
      if (!unit) break;
      Read(*unit);
    }
  } catch (...) {
    Drop();
    throw;
  }
  lease_ = Lease();
}

void Lane::Read(Unit unit) {
  // A node that is known by its id is looked for more often.
  attempts_ = static_cast<int>(config_.endpoints.size()) + (unit.node.empty() ? 1 : kMoreAttempts);
  fresh_ = false;
  handed_out_ = false;
  int begun = 0;
  while (true) {
    try {
      if (!open_ && (begun++ > kMoreAttempts || !OpenUnit(unit, fresh_))) break;
      report_ = open_->report;
      if (ReadPages(unit)) return;
      Drop();
    } catch (const Error& error) {
      Drop();
      Recover(unit, error);
      if (unit.kind == Unit::Kind::kPartition && !unit.node.empty())
        unit.node = PrimaryOf(unit.partitions.front());
    }
  }
  // One by one, where they are now.
  one_by_one_ = true;
  for (const std::int32_t partition : unit.partitions) {
    Read({Unit::Kind::kPartition, PrimaryOf(partition), {partition}});
  }
  one_by_one_ = false;
}

std::string Lane::PrimaryOf(std::int32_t partition) const {
  const std::shared_ptr<const CacheTopology> topology = watch_.topology();
  const CacheNode* node = topology->Primary(partition);
  return node == nullptr ? std::string() : node->id;
}

bool Lane::OpenUnit(const Unit& unit, bool fresh) {
  const TopologyVersion version = watch_.topology()->version;
  if (unit.kind == Unit::Kind::kNode && !watch_.Exact(unit)) return false;
  doing_ = MakeQuery(unit).Describe();
  report_ = NewReport(unit);
  Connect(unit, fresh);
  if (unit.kind == Unit::Kind::kNode && lease_node_ != unit.node) return false;
  OpenCursor(unit);
  if (unit.kind == Unit::Kind::kNode) open_->unconfirmed = version;
  return true;
}

void Lane::Connect(const Unit& unit, bool fresh) {
  const std::shared_ptr<const CacheTopology> topology = watch_.topology();
  // The primary may have changed since the plan was made.
  const CacheNode* node = unit.node.empty() ? nullptr : topology->Primary(unit.partitions.front());
  const std::string wanted = node == nullptr ? std::string() : node->id;
  if (lease_ && !fresh && lease_node_ == wanted) return;
  lease_ = Lease();
  lease_node_.clear();
  if (node != nullptr) {
    lease_ = DirectConnection(config_, *node, fresh, wait_);
    if (lease_) lease_node_ = node->id;
  }
  if (!lease_) lease_ = AnyConnection(config_, topology.get(), endpoint_, fresh, wait_, &endpoint_);
  work_.Answered(lease_->endpoint());
}

Query Lane::MakeQuery(const Unit& unit) const {
  Query query{config_.cache, unit.partition(), config_.local || unit.kind == Unit::Kind::kNode, 0};
  if (config_.sql) {
    query.sql = &*config_.sql;
    if (config_.partitions) query.partitions = &*config_.partitions;
  }
  return query;
}

std::shared_ptr<PartitionReport> Lane::NewReport(const Unit& unit) const {
  return NewPartitionReport(pass_, config_.cache.empty() ? config_.Where() : config_.cache, unit.partition());
}

void Lane::OpenCursor(const Unit& unit) {
  Query query = MakeQuery(unit);
  if (query.sql != nullptr && config_.shared) CheckDivisible(*lease_, config_.cache, *query.sql, wait_);
  query.page_rows = ChoosePageRows(query);
  const auto& node_id = lease_->node_id();
  report_->SetSource(node_id ? node_id->ToString() : "", lease_->endpoint().ToString());
  report_->state = PartitionReport::kReading;
  open_.emplace(Open{report_, query, Cursor(&*lease_, query, wait_), std::nullopt});
}

std::int32_t Lane::ChoosePageRows(const Query& query) {
  if (config_.page_size > 0) {
    const double fit = config_.bytes_per_row > 0 ? kMostPageBytes / config_.bytes_per_row : config_.page_size;
    return std::max<std::int32_t>(1, static_cast<std::int32_t>(std::min<double>(config_.page_size, fit)));
  }
  if (rows_seen_ == 0 && config_.bytes_per_row <= 0) {
    Query probe = query;
    probe.page_rows = kProbeRows;
    Cursor cursor(&*lease_, probe, wait_);
    const PageData page = cursor.Receive(wait_);
    if (page.topology_changed) watch_.Notice(page.topology);
    rows_seen_ += page.rows;
    bytes_seen_ += static_cast<std::int64_t>(page.frame.size());
    if (!cursor.Close(kCloseLimit))
      throw Error(Code::kUnavailable, lease_->endpoint().ToString() + ": the connection was lost");
  }
  if (rows_seen_ == 0) return PageRows(config_.bytes_per_row > 0 ? config_.bytes_per_row : kPageBytes / 1024);
  return PageRows(static_cast<double>(bytes_seen_) / static_cast<double>(rows_seen_));
}

std::shared_ptr<Page> Lane::ReceivePage() {
  lease_->Recycle(frames_->Take());
  std::shared_ptr<Page> page(new Page, [frames = frames_](Page* used) {
    frames->Put(std::move(used->frame));
    delete used;
  });
  page->frames = frames_;
  static_cast<PageData&>(*page) = open_->cursor.Receive(wait_);
  return page;
}

bool Lane::ReadPages(const Unit& unit) {
  while (open_) {
    std::shared_ptr<Page> page = ReceivePage();
    page->report = open_->report;
    if (page->topology_changed) watch_.Notice(page->topology);
    if (open_->unconfirmed) {
      // A connection tells each change once, and maybe not to us: so the cluster is asked.
      watch_.Refresh();
      if (!(watch_.topology()->version == *open_->unconfirmed)) return false;
      open_->unconfirmed.reset();
    }
    // A server that does not say when the topology changes is asked at the end.
    if (page->last && unit.kind == Unit::Kind::kNode && !lease_->version().AtLeast(1, 4)) watch_.Refresh();
    // A partition's own query keeps the partition where it is; a node's query does not, and its rows may be
    // gone.
    if (unit.kind == Unit::Kind::kNode && watch_.Moved(unit)) {
      throw Error(Code::kUnavailable, lease_->endpoint().ToString() +
                                          ": partitions moved to another node while " +
                                          open_->query.Describe());
    }
    rows_seen_ += page->rows;
    bytes_seen_ += static_cast<std::int64_t>(page->frame.size());
    if (page->rows > 0) handed_out_ = true;
    if (page->last) {
      open_.reset();
      OpenAhead();
      work_.Push(index_, std::move(page));
      wait_.NextSlice("handing over rows");
      return true;
    }
    if (!work_.Push(index_, std::move(page))) throw Error(Code::kCancelled, "the pass was dropped");
  }
  return true;
}

void Lane::OpenAhead() {
  if (one_by_one_) return;  // the unit after this one comes after all of this one
  ahead_ = work_.NextUnit(index_, lease_node_);
  if (!ahead_ || ahead_->kind != Unit::Kind::kPartition || ahead_->node != lease_node_ ||
      watch_.Moved(*ahead_))
    return;
  const std::shared_ptr<PartitionReport> current = report_;
  try {
    report_ = NewReport(*ahead_);
    OpenCursor(*ahead_);
  } catch (const Error&) {
    Drop();  // its own turn comes, and its own error
  }
  report_ = current;
}

void Lane::Drop() noexcept {
  if (open_ && !open_->cursor.Close(kCloseLimit)) lease_.Discard();
  open_.reset();
  lease_ = Lease();
  lease_node_.clear();
}

Error Lane::Described(const Error& error) const {
  if (Contains(error, doing_.c_str())) return error;
  return Error(error.code(), error.message() + " (" + doing_ + ")", error.server_status());
}

void Lane::Recover(const Unit& unit, const Error& error) {
  const auto fail = [&](const Error& reason) {
    report_->state = reason.code() == Code::kCancelled ? PartitionReport::kDropped : PartitionReport::kFailed;
    work_.Failed(report_);
    throw Described(reason);
  };
  const std::shared_ptr<const CacheTopology> topology = watch_.topology();
  const bool mapped = topology->known && !unit.node.empty();
  try {
    if (LostByServer(error)) {
      if (mapped) watch_.Refresh();  // may know which node it was
      fail(watch_.Explained(error));
    }
    const bool connection = error.code() == Code::kUnavailable;
    if (!connection) {
      // While a node leaves, servers answer with errors of many kinds, a null pointer of their own among
      // them.
      const bool general = error.server_status() == kFailed || error.server_status() == kInvalidNodeState;
      if (!general || !mapped || !watch_.AwaitChange(unit, kBlameLimit)) fail(error);
    }
    if (--attempts_ <= 0) fail(error);
    if (handed_out_) {
      // Rows that were handed out must not come again.
      if (mapped) watch_.AwaitChange(unit, kReasonLimit);
      fail(Error(Code::kUnavailable, error.message(), error.server_status()));
    }
    if (connection && !fresh_) {  // one from the pool may have been dead for long
      fresh_ = true;
      return;
    }
    if (mapped) {
      watch_.AwaitChange(unit, kNoticeLimit);
    } else {
      endpoint_ = (endpoint_ + 1) % config_.endpoints.size();
    }
  } catch (const Error& reason) {
    fail(reason);
  }
}

}  // namespace ignite_strategy
