#include "native/scan/scan.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "native/binary/decoder.h"
#include "native/scan/fetcher.h"

namespace ignite_strategy {
namespace {

// Rows that a batch of unknown size takes memory for at first.
constexpr std::size_t kFirstRows = 16384;
// What batches that are handed over together have at the most: a hand-over costs as much as some hundred
// rows.
constexpr double kGroupBytes = 512 << 10;
constexpr std::int64_t kGroupBatches = 64;

}  // namespace

// The page and the batch at hand.
struct Scan::Decoding {
  Decoding(const ScanConfig& config, std::function<Endpoint()> endpoint)
      : fetcher(std::move(endpoint), config.timeouts),
        types([this](std::int32_t type_id) { return fetcher(type_id); }),
        decoder(config.columns, &types, config.Where(), config.value_type),
        slots(config.columns.size()) {
    if (config.sql) decoder.SetSqlColumns(config.sql->columns);
  }

  TypeFetcher fetcher;
  TypeCache types;
  RowDecoder decoder;
  std::vector<Slot> slots;

  std::shared_ptr<const Page> page;
  Reader rows{nullptr, 0};
  std::int32_t rows_left = 0;

  std::optional<BatchBuilder> builder;
  std::int64_t batch_rows = 0;  // when that many are in it, it is handed over
  std::vector<std::shared_ptr<const Page>> batch_pages;
  std::vector<std::shared_ptr<const Arena>> texts;  // of rows that the last batch left over
  std::vector<Count> counts;
  std::size_t last_cut = 0;  // rows of a batch that ended where an array's length changed
};

Scan::Scan(ScanConfig config)
    : config_(std::move(config)), process_(getpid()), pages_(std::make_shared<Pages>(config_)) {
  if (config_.columns.empty()) throw Error(Code::kInvalidArgument, config_.Where() + ": no column is wanted");
  if (config_.endpoints.empty())
    throw Error(Code::kInvalidArgument, config_.Where() + ": no address to read it from");
  decoding_ = std::make_unique<Decoding>(config_, [pages = pages_] { return pages->endpoint(); });
  pages_->Start();
}

Scan::~Scan() {
  pages_->Cancel();
  if (decoding_ && decoding_->page && decoding_->page->report->state == PartitionReport::kReading) {
    decoding_->page->report->state = PartitionReport::kDropped;
  }
}

Scan::State Scan::Prepare(Millis limit, const std::function<void()>& check) {
  if (getpid() != process_) {
    throw Error(Code::kFailedPrecondition,
                config_.Where() + ": this pass began in another process, before a fork");
  }
  if (error_) throw *error_;
  if (ready_) return State::kReady;
  if (error_behind_) {
    error_ = Delivered(*std::exchange(error_behind_, std::nullopt));
    throw *error_;
  }
  if (ended_) return State::kEnd;
  const auto deadline = Clock::now() + limit;
  // What `check` throws ends this wait, not the pass.
  bool interrupted = false;
  const std::function<void()> noted = [&] {
    interrupted = true;
    if (check) check();
    interrupted = false;
  };
  try {
    return Fill(deadline, noted);
  } catch (const Error& error) {
    if (interrupted) throw;
    pages_->Cancel();
    if (WholeBatches() > 0) {
      // Batches before the one that cannot be read are as good as they would have been one by one.
      error_behind_ = error;
      ready_ = true;
      return State::kReady;
    }
    error_ = Delivered(error);
    throw *error_;
  }
}

Scan::State Scan::Fill(Clock::time_point deadline, const std::function<void()>& check) {
  Decoding& at = *decoding_;
  while (true) {
    try {
      if (at.page && DecodeRows()) {
        ready_ = true;
        return State::kReady;
      }
    } catch (const TypePending&) {
      if (!at.fetcher.Await(deadline, check)) return State::kWait;
      continue;
    }
    std::shared_ptr<const Page> page;
    const auto left = std::chrono::ceil<Millis>(std::max(deadline - Clock::now(), Clock::duration::zero()));
    switch (pages_->Pop(left, check, &page)) {
      case Pages::Outcome::kWait:
        return State::kWait;
      case Pages::Outcome::kPage:
        OpenPage(std::move(page));
        break;
      case Pages::Outcome::kEnd:
        ended_ = true;
        ready_ = at.builder && at.builder->rows() > 0 && !config_.drop_remainder;
        return ready_ ? State::kReady : State::kEnd;
    }
  }
}

void Scan::OpenPage(std::shared_ptr<const Page> page) {
  Decoding& at = *decoding_;
  at.page = std::move(page);
  at.rows = at.page->Rows();
  at.rows_left = at.page->rows;
  at.page->report->bytes += static_cast<std::int64_t>(at.page->frame.size());
  at.counts.push_back({at.page->report, 0, at.page->last && at.page->rows == 0});
  if (at.builder) SetBatchRows();
}

// True if the batch is complete.
bool Scan::DecodeRows() {
  Decoding& at = *decoding_;
  if (!at.builder && at.rows_left > 0) StartBatch();
  while (at.rows_left > 0) {
    const Reader row = at.rows;
    // The position moves only when the row is in: a type may still be pending, and the row comes again.
    Reader next = row;
    const bool wanted = at.decoder.Locate(next, at.slots);
    if (wanted) {
      if (!at.builder->Fits(at.slots)) {
        at.last_cut = at.builder->rows();
        return true;
      }
      const int wrong = at.builder->Append(at.slots);
      if (wrong >= 0) {
        const auto column = static_cast<std::size_t>(wrong);
        throw at.decoder.WrongLength(row, config_.columns[column], at.slots[column].count,
                                     at.builder->length(column));
      }
      if (at.batch_pages.empty() || at.batch_pages.back() != at.page) at.batch_pages.push_back(at.page);
      ++at.counts.back().rows;
    }
    at.rows = next;
    if (--at.rows_left == 0) at.counts.back().done = at.page->last;
    if (wanted && static_cast<std::int64_t>(at.builder->rows()) == at.batch_rows) {
      if (at.rows_left == 0) ClosePage();
      return true;
    }
  }
  ClosePage();
  // Whole batches do not wait for another page.
  if (config_.batch_size != 0) return WholeBatches() > 0;
  return at.builder && at.builder->rows() > 0;
}

void Scan::ClosePage() {
  Decoding& at = *decoding_;
  if (at.rows.left() != 0) {
    throw Error(Code::kDataLoss, config_.Where() + ", partition " +
                                     std::to_string(at.page->report->partition) + ": " +
                                     std::to_string(at.rows.left()) + " bytes after the last row of a page");
  }
  at.page.reset();
}

void Scan::StartBatch() {
  Decoding& at = *decoding_;
  auto rows = static_cast<std::size_t>(at.rows_left);
  SetBatchRows();
  if (config_.batch_size > 0) rows = std::min(static_cast<std::size_t>(at.batch_rows), kFirstRows);
  // Where lengths change often, a page's worth of memory per batch would be wasted.
  if (at.last_cut > 0) rows = std::min(rows, 4 * at.last_cut);
  at.last_cut = 0;
  at.builder.emplace(config_.columns, rows, at.page->frame.size(),
                     config_.grouped ? static_cast<std::size_t>(config_.batch_size) : 0);
}

void Scan::SetBatchRows() {
  Decoding& at = *decoding_;
  at.batch_rows = config_.batch_size;
  if (!config_.grouped || at.page->rows == 0) return;
  const double row_bytes = static_cast<double>(at.page->frame.size()) / at.page->rows;
  const double batches = kGroupBytes / row_bytes / static_cast<double>(config_.batch_size);
  at.batch_rows *= std::clamp<std::int64_t>(static_cast<std::int64_t>(batches), 1, kGroupBatches);
}

std::int64_t Scan::WholeBatches() const {
  if (!config_.grouped || !decoding_->builder) return 0;
  return static_cast<std::int64_t>(decoding_->builder->rows()) / config_.batch_size;
}

Batch Scan::Take(bool lend) {
  if (!ready_) throw Error(Code::kFailedPrecondition, config_.Where() + ": no batch is ready");
  Decoding& at = *decoding_;
  ready_ = false;
  Batch batch;
  batch.rows = static_cast<std::int64_t>(at.builder->rows());
  std::optional<BatchBuilder> rest;
  if (const std::int64_t whole = WholeBatches() * config_.batch_size; whole > 0 && whole < batch.rows) {
    rest.emplace(at.builder->SplitOff(static_cast<std::size_t>(whole)));
    batch.rows = whole;
  }
  // One row would keep a page of many.
  lend = lend && at.batch_pages.size() == 1 && at.batch_pages.back()->rows == 1;
  batch.columns = at.builder->Finish(lend);
  batch.pages = std::move(at.batch_pages);
  batch.texts = std::exchange(at.texts, {});
  batch.texts.push_back(std::make_shared<const Arena>(at.decoder.TakeTexts()));
  at.batch_pages.clear();
  at.builder.reset();
  if (lend) Align(batch);
  rows_delivered_ += batch.rows;
  std::optional<Count> left;
  if (rest) left = KeepRest(std::move(*rest), batch);
  for (const Count& count : at.counts) {
    count.report->rows += count.rows;
    if (count.done) count.report->state = PartitionReport::kDone;
  }
  at.counts.clear();
  if (left) at.counts.push_back(*left);
  if (at.page) at.counts.push_back({at.page->report, 0, false});
  return batch;
}

void Scan::Align(const Batch& batch) const {
  for (const Column& column : batch.columns) {
    if (column.lent == nullptr) continue;
    const Page& page = *batch.pages.back();
    const auto offset = static_cast<std::size_t>(column.lent - page.frame.data());
    if (column.lent >= page.frame.data() && offset < page.frame.size()) page.frames->Align(offset);
  }
}

// The rows that do not fill a batch begin the next one. All of them are of the last page: without it there
// was no whole batch yet.
Scan::Count Scan::KeepRest(BatchBuilder rest, const Batch& batch) {
  Decoding& at = *decoding_;
  const auto rows = static_cast<std::int64_t>(rest.rows());
  at.builder.emplace(std::move(rest));
  at.batch_pages.push_back(batch.pages.back());
  at.texts.push_back(batch.texts.back());
  Count& last = at.counts.back();
  last.rows -= rows;
  return {last.report, rows, std::exchange(last.done, false)};
}

// Says how far the pass had come, as far as its consumer can know.
Error Scan::Delivered(const Error& error) const {
  std::shared_ptr<PartitionReport> report = decoding_->page ? decoding_->page->report : pages_->failed();
  std::string partition;
  if (report && report->partition >= 0) {
    partition = std::to_string(report->rows.load()) + " rows of partition " +
                std::to_string(report->partition) + " and ";
  }
  if (report) report->state = PartitionReport::kFailed;
  return Error(error.code(),
               error.message() + "; " + partition + std::to_string(rows_delivered_) +
                   " rows of this pass over " + config_.Where() + " had been delivered",
               error.server_status());
}

}  // namespace ignite_strategy
