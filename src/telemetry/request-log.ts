import { requestLinesMax } from '../core/bounds.ts';
import { uncachedTokens, writtenTokens } from '../core/usage.ts';
import { totalCharge } from '../money/price/fee-kinds.ts';
import type { EndedRequest } from './ended-request.ts';
import { logLine } from './log.ts';
import { counter, type Family } from './prometheus.ts';

/** Lines are written in batches, because a system call costs more than a line. */
const pauseMs = 100;

/** Writes a line for each ended request, in batches and one batch at a time. */
export class RequestLog {
  readonly #write: (lines: string) => unknown;
  #lines: string[] = [];
  /** Lines dropped since the last batch, and in total. */
  #droppedSinceBatch = 0;
  #dropped = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #writing: Promise<void> | undefined;

  constructor(write: (lines: string) => unknown) {
    this.#write = write;
  }

  /** Drops lines instead of keeping them in memory if the reader is too slow. */
  ended(request: EndedRequest): void {
    if (this.#lines.length >= requestLinesMax) {
      this.#droppedSinceBatch += 1;
      this.#dropped += 1;
      return;
    }
    this.#lines.push(formatLine(request));
    if (this.#timer === undefined) this.#scheduleWrite();
  }

  families(): Family[] {
    const help = 'Request log lines dropped because the reader was too slow.';
    return [counter('tollgate_log_lines_dropped_total', help, this.#dropped)];
  }

  /** Resolves once all lines so far have been written. */
  async flush(): Promise<void> {
    while (this.#lines.length > 0 || this.#writing !== undefined) {
      this.#writing ??= this.#writeAll();
      await this.#writing;
    }
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  #scheduleWrite(): void {
    this.#timer = setTimeout(() => this.#onTimer(), pauseMs);
  }

  #onTimer(): void {
    this.#timer = undefined;
    if (this.#writing === undefined) this.#writing = this.#writeAll();
    else this.#scheduleWrite();
  }

  async #writeAll(): Promise<void> {
    const lines = this.#lines;
    this.#lines = [];
    if (this.#droppedSinceBatch > 0) {
      lines.push(logLine('warn', 'request_lines_dropped', { lines: this.#droppedSinceBatch }));
      this.#droppedSinceBatch = 0;
    }
    try {
      // Without Promise.try, a synchronous throw would end this before `#writing` is set.
      await Promise.try(() => this.#write(lines.join('')));
    } catch {
      this.#dropped += lines.length;
    } finally {
      this.#writing = undefined;
    }
  }
}

/**
 * JSON does not escape these, but a terminal or log reader may act on them: line ends, control
 * codes, and marks that change the reading direction.
 */
const unsafeToPrint = /[\u007f-\u009f\u2028-\u202e\u2066-\u2069]/g;

function onOneLine(text: string): string {
  return text.replace(unsafeToPrint, ' ');
}

let lastTime = { ms: 0, text: '1970-01-01T00:00:00.000Z' };

/** Formatting is slow, so requests that end in the same millisecond share the result. */
function timeText(ms: number): string {
  if (lastTime.ms !== ms) lastTime = { ms, text: new Date(ms).toISOString() };
  return lastTime.text;
}

/** Runs for every request. Twice as fast as `logLine`. */
function formatLine(request: EndedRequest): string {
  const { usage } = request;
  const line = JSON.stringify({
    time: timeText(Date.now()),
    level: 'info',
    event: 'request',
    request_id: request.requestId,
    tenant: request.tenantId,
    key: request.keyId,
    operation: request.operation,
    requested_model: onOneLine(request.requestedModel),
    model: request.model,
    provider: request.provider,
    status: request.status,
    error: request.error,
    traffic_mode: request.trafficMode,
    cache: request.cacheHit ? 'HIT' : 'MISS',
    streamed: request.streamed,
    cancelled: request.cancelled,
    finish_reason: request.finishReason && onOneLine(request.finishReason),
    attempts: request.attempts.length,
    input_tokens: uncachedTokens(usage),
    cache_read_tokens: usage.cacheReadTokens,
    cache_write_tokens: writtenTokens(usage),
    output_tokens: usage.outputTokens,
    reasoning_tokens: usage.reasoningTokens,
    usage_estimated: request.usageEstimated,
    credits: totalCharge(request.charges),
    first_byte_ms: request.firstByteMs,
    duration_ms: request.durationMs,
  });
  return `${line}\n`;
}
