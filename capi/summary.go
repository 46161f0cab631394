package main

import (
	"time"

	"github.com/headrace/headrace/internal/decoder"
	"github.com/headrace/headrace/internal/pathjson"
	"github.com/headrace/headrace/internal/pipeline"
)

// The answer of hr_loader_info. Durations are seconds, in a unit that the key names.
type (
	loaderSummary struct {
		Steps     int64         `json:"steps"`
		Length    int64         `json:"length"`
		SlotBytes int64         `json:"slot_bytes"`
		Prefetch  int           `json:"prefetch"`
		Threads   int           `json:"threads"`
		Stretches string        `json:"stretches,omitempty"` // checksum of the stretches that the order is made of
		Trace     pathjson.Text `json:"trace,omitempty"`     // the file of the trace under way
		Fields    []fieldFact   `json:"fields"`
		Stats     statsJSON     `json:"stats"`
		Cache     string        `json:"cache_warning,omitempty"` // why the cache is no longer used
		Report    []replaced    `json:"report"`
		State     loaderState   `json:"state"`
	}
	fieldFact struct {
		Name  string  `json:"name"`
		Shape []int64 `json:"shape"`
	}
	loaderState struct {
		Seed     uint64 `json:"seed"`
		Epoch    int64  `json:"epoch"`
		Position int64  `json:"position"`
	}
	statsJSON struct {
		ImagesPerSecond float64 `json:"images_per_second"`
		Samples         int64   `json:"samples"`
		Batches         int64   `json:"batches"`
		ImagesDecoded   int64   `json:"images_decoded"`
		BlocksDecoded   int64   `json:"blocks_decoded"`
		WithPoints      int64   `json:"images_with_seek_points"`
		BytesRead       int64   `json:"bytes_read"`
		BytesPerSecond  float64 `json:"bytes_per_second"`
		Reading         float64 `json:"reading_s"`
		Decoding        float64 `json:"decoding_s"`
		ReadWait        float64 `json:"waiting_for_bytes_s"`
		SlotWait        float64 `json:"waiting_for_consumer_s"`
		ConsumerWait    float64 `json:"consumer_waiting_s"`
		StallP50        float64 `json:"stall_p50_s"`
		StallP99        float64 `json:"stall_p99_s"`
		StallMax        float64 `json:"stall_max_s"`
		Ready           int     `json:"batches_ready"`
		Open            int     `json:"batches_open"`
		QueuedRecords   int     `json:"records_queued"`
		ReadingAhead    bool    `json:"reading_ahead"`
		Threads         int     `json:"threads"`
		RemoteRequests  int64   `json:"remote_requests"`
		RemoteBytes     int64   `json:"remote_bytes"`
		RemoteRate      float64 `json:"remote_bytes_per_second"`
		RemoteIndex     int64   `json:"remote_index_bytes"`
		RemoteSeek      int64   `json:"remote_seek_bytes"`
		RemoteRetries   int64   `json:"remote_retries"`
		RemoteHedges    int64   `json:"remote_hedges"`
		RemoteMerged    int64   `json:"remote_merged"`
		RemoteAtOnce    int     `json:"remote_at_once"`
		RemoteWaited    float64 `json:"remote_waited_s"`
		CacheHits       int64   `json:"cache_hits"`
		CacheHitBytes   int64   `json:"cache_hit_bytes"`
		CacheDropped    int64   `json:"cache_dropped"`
		CacheBytes      int64   `json:"cache_bytes"`
		CachePlanned    bool    `json:"cache_planned"`
		CacheAhead      int64   `json:"cache_planned_ahead"`
		Replaced        int64   `json:"replaced"`
		Warned          int64   `json:"warned"`
	}
	// replaced is a line of the report: a sample that was replaced by another one, or one that was
	// kept although the decoder warned (substitute -1, no error).
	replaced struct {
		Epoch      int64  `json:"epoch"`
		Step       int64  `json:"step"`
		Place      int64  `json:"place"`
		Index      int64  `json:"index"`
		Key        string `json:"key"`
		Substitute int64  `json:"substitute"`
		Warnings   uint32 `json:"warnings"`
		Error      string `json:"error"`
	}
)

// A summed object is one that hr_loader_info describes.
type summed interface {
	object
	told() any
}

// decoderSummary is the answer of hr_loader_info for a decoder.
type decoderSummary struct {
	Threads int           `json:"threads"`
	Trace   pathjson.Text `json:"trace,omitempty"`
	Stats   statsJSON     `json:"stats"`
}

func (l *loader) told() any { return l.summary() }

func (d imageDecoder) told() any {
	stats := d.Stats()
	return decoderSummary{Threads: stats.Threads, Trace: pathjson.Text(d.TracePath()), Stats: statistics(asLoaders(stats))}
}

// asLoaders turns a decoder's statistics into those of a loader. Only the caller knows what was
// handed out.
func asLoaders(s decoder.Stats) pipeline.Stats {
	return pipeline.Stats{Threads: s.Threads, Images: s.Images, WithPoints: s.WithPoints, BytesRead: s.BytesRead,
		Reading: s.Reading, Decoding: s.Decoding, SlotWait: s.Idle,
		Ready: s.Finished, Open: s.Works + s.Finished, QueuedRecords: s.Tasks}
}

func (l *loader) summary() loaderSummary {
	layout := l.Layout()
	epoch, position := l.Position()
	stats := l.Stats()
	answer := loaderSummary{
		Steps: l.Steps(), Length: l.length, SlotBytes: layout.SlotBytes, Prefetch: l.Prefetch(), Threads: stats.Threads, Stretches: l.stretches,
		Trace: pathjson.Text(l.TracePath()),
		Stats: statistics(stats), Cache: stats.KeptWarning, Report: []replaced{},
		State: loaderState{l.config.Seed, epoch, position},
	}
	for _, f := range layout.Fields {
		answer.Fields = append(answer.Fields, fieldFact{f.Name, append([]int64{}, f.Shape...)})
	}
	for _, r := range l.Report() {
		line := replaced{r.Epoch, r.Step, r.Place, r.Index, r.Key, r.Substitute, r.Warnings, ""}
		if r.Err != nil {
			line.Error = r.Err.Error()
		}
		answer.Report = append(answer.Report, line)
	}
	return answer
}

func statistics(s pipeline.Stats) statsJSON {
	seconds := time.Duration.Seconds
	return statsJSON{
		ImagesPerSecond: s.ImagesPerSecond, Samples: s.Samples, Batches: s.Batches,
		ImagesDecoded: s.Images, WithPoints: s.WithPoints, BlocksDecoded: s.Blocks,
		BytesRead: s.BytesRead, BytesPerSecond: s.BytesPerSecond,
		Reading: seconds(s.Reading), Decoding: seconds(s.Decoding),
		ReadWait: seconds(s.ReadWait), SlotWait: seconds(s.SlotWait),
		ConsumerWait: seconds(s.ConsumerWait), StallP50: seconds(s.StallP50),
		StallP99: seconds(s.StallP99), StallMax: seconds(s.StallMax),
		Ready: s.Ready, Open: s.Open, QueuedRecords: s.QueuedRecords,
		RemoteRequests: s.Fetched.Requests, RemoteBytes: s.Fetched.Bytes, RemoteRate: s.Fetched.Rate(),
		RemoteIndex: s.Fetched.IndexBytes, RemoteSeek: s.Fetched.SeekBytes, RemoteRetries: s.Fetched.Retries,
		RemoteHedges: s.Fetched.Hedges, RemoteMerged: s.Merged, RemoteAtOnce: s.AtOnce, RemoteWaited: seconds(s.Fetched.Waited),
		CacheHits: s.Kept.Hits, CacheHitBytes: s.Kept.HitBytes, CacheDropped: s.Kept.Dropped, CacheBytes: s.Kept.Bytes,
		CachePlanned: s.Kept.Planned, CacheAhead: s.Kept.Ahead,
		ReadingAhead: s.ReadingAhead, Threads: s.Threads, Replaced: s.Replaced, Warned: s.Warned,
	}
}
