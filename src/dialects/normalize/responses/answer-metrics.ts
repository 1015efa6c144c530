import type {
  AnswerSink,
  Citation,
  FinishReason,
  ReasoningName,
  WebSearch,
} from '../../../core/answer.ts';
import { charactersPerImage, charactersPerToken, type Usage } from '../../../core/usage.ts';
import type { AnswerMetrics, UpstreamFailure } from '../../dialect.ts';
import { MalformedAnswer } from '../../failure.ts';
import type { ToolNames } from '../requests/tool-identifiers.ts';
import { JsonEndScanner } from './tool-arguments.ts';

/** Collects what billing and logging need to know about an answer while it arrives. */
export class RecordedMetrics implements AnswerMetrics {
  finishReason: string | undefined = undefined;
  /** True while choices other than the first are open. `finishReason` is the first choice's. */
  hasOpenChoice = false;
  outputCharacters = 0;
  failure: UpstreamFailure | undefined = undefined;
  #usage: Usage | undefined = undefined;
  #isReportedEstimate = false;
  /** The number of characters that the last usage report covers. */
  #countedCharacters = 0;

  /**
   * Returns the last report plus an estimate of the output after it. An interrupted answer has no
   * final report.
   */
  get usage(): Usage | undefined {
    const uncounted = this.#uncounted;
    return this.#usage && addUncounted(this.#usage, this.outputCharacters - uncounted, uncounted);
  }

  set usage(usage: Usage | undefined) {
    this.#usage = usage;
    this.markCounted();
  }

  get isEstimate(): boolean {
    return this.#isReportedEstimate || this.usage !== this.#usage;
  }

  set isEstimate(isReportedEstimate: boolean) {
    this.#isReportedEstimate = isReportedEstimate;
  }

  /** Marks all output so far as covered by the last report. */
  markCounted(): void {
    this.#countedCharacters = this.outputCharacters;
  }

  /**
   * Returns the number of output characters that the last report doesn't cover. A report with 0
   * output tokens is only about the prompt, so it covers none. Once the answer has ended, a report
   * counts as complete, unless it has 0 output tokens and content arrived after it.
   */
  get #uncounted(): number {
    const uncovered = this.outputCharacters - this.#countedCharacters;
    const isPromptOnly = this.#usage?.outputTokens === 0;
    const hasEnded = this.finishReason !== undefined && !this.hasOpenChoice;
    if (hasEnded && !(isPromptOnly && uncovered > 0)) return 0;
    return isPromptOnly ? this.outputCharacters : uncovered;
  }
}

/**
 * Adds an estimate of the output that followed a reported count. Text rarely has more than one
 * token per character, so a count that exceeds the number of characters before it may include later
 * output. In that case, only the difference between the estimate of all output and the count is
 * added, so that no output is billed twice.
 */
function addUncounted(usage: Usage, counted: number, uncounted: number): Usage {
  const { outputTokens } = usage;
  const remaining = tokensIn(counted + uncounted) - outputTokens;
  const uncountedTokens = tokensIn(uncounted);
  const added = outputTokens > counted ? Math.min(uncountedTokens, remaining) : uncountedTokens;
  return added > 0 ? { ...usage, outputTokens: outputTokens + added } : usage;
}

function tokensIn(characters: number): number {
  return Math.ceil(characters / charactersPerToken);
}

/**
 * Emits an image by its URL. Clients whose format supports only image bytes get a Markdown image
 * instead, which most of them render.
 */
export function emitImageUrl(url: string, sink: AnswerSink): void {
  const escapedUrl = url.replace(
    /[ ()]/g,
    (character) => `%${character.charCodeAt(0).toString(16)}`,
  );
  if (sink.imageAt) sink.imageAt(url);
  else sink.text(`\n![image](${escapedUrl})\n`);
}

/** Maps neutral finish reasons to OpenAI's, which the logs use. */
export const openAiFinishReasons: Readonly<Record<FinishReason, string>> = {
  stop: 'stop',
  stop_sequence: 'stop',
  length: 'length',
  context: 'length',
  tool_calls: 'tool_calls',
  content_filter: 'content_filter',
  pause: 'stop',
};

/** Forwards an answer to another sink and records its metrics. */
export class MeteringSink implements AnswerSink {
  readonly metrics: RecordedMetrics;
  /** True once the answer has any content. */
  started = false;
  readonly #sink: AnswerSink;
  readonly #names: ToolNames | undefined;
  /** The first choice's sink, which holds the totals of all choices. */
  readonly #root: MeteringSink;
  /** The other choices that have started and not ended. Only the first choice's sink uses this. */
  readonly #openChoices = new Set<MeteringSink>();
  /** The arguments of each call. */
  readonly #arguments = new Map<number, JsonEndScanner>();
  /** The provider's own finish if a call was cut off at that time. Its rest may still arrive. */
  #cutFinish: Parameters<AnswerSink['finish']> | undefined;

  constructor(sink: AnswerSink, names?: ToolNames, root?: MeteringSink) {
    this.#sink = sink;
    this.#names = names;
    this.#root = root ?? this;
    this.metrics = root?.metrics ?? new RecordedMetrics();
  }

  choice(choiceIndex: number): AnswerSink | undefined {
    const sink = this.#sink.choice?.(choiceIndex);
    return sink && new MeteringSink(sink, this.#names, this.#root);
  }

  text(text: string): void {
    this.#count(text.length);
    this.#sink.text(text);
  }

  reasoning(text: string, name?: ReasoningName): void {
    this.#count(text.length);
    this.#sink.reasoning(text, name);
  }

  reasoningSignature(signature: string): void {
    this.#root.started = true;
    this.#sink.reasoningSignature(signature);
  }

  redactedReasoning(data: string): void {
    this.#count(data.length);
    this.#sink.redactedReasoning(data);
  }

  /**
   * Throws for a call without a name. No client can run it, and upstreams reject requests that
   * contain it.
   */
  toolCall(call: number, id: string, name: string): void {
    if (name === '') throw new MalformedAnswer('a tool call without a name');
    this.#count(name.length);
    this.#sink.toolCall(call, id, this.#names?.restore(name) ?? name);
  }

  toolArguments(call: number, json: string): void {
    this.#count(json.length);
    this.#sink.toolArguments(call, json);
    const scanner = this.#arguments.get(call) ?? new JsonEndScanner();
    this.#arguments.set(call, scanner);
    scanner.push(json);
    if (scanner.isComplete && this.#cutFinish) this.finish(...this.#cutFinish);
  }

  refusal(text: string): void {
    this.#count(text.length);
    this.#sink.refusal(text);
  }

  citation(citation: Citation): void {
    this.#sink.citation(citation);
  }

  webSearch(search: WebSearch): void {
    this.#sink.webSearch?.(search);
  }

  image(mediaType: string, base64: string): void {
    this.#count(charactersPerImage);
    this.#sink.image(mediaType, base64);
  }

  imageAt(url: string): void {
    this.#count(charactersPerImage);
    emitImageUrl(url, this.#sink);
  }

  /**
   * Some providers report a call that the output limit cut off as finished. A client would run it
   * with half of its input, so the reason becomes `length`.
   */
  finish(...finish: Parameters<AnswerSink['finish']>): void {
    const mayRunTools = finish[0] === 'tool_calls' || finish[0] === 'stop';
    const isCut = mayRunTools && [...this.#arguments.values()].some((call) => call.isCut);
    this.#cutFinish = isCut ? finish : undefined;
    const [reason, stopSequence, rawReason] = isCut ? (['length', null] as const) : finish;
    this.#root.started = true;
    if (this.#root === this) this.metrics.finishReason = rawReason ?? openAiFinishReasons[reason];
    else this.#root.#openChoices.delete(this);
    this.metrics.hasOpenChoice = this.#root.#openChoices.size > 0;
    this.#sink.finish(reason, stopSequence, rawReason);
  }

  usage(usage: Usage, isEstimate = false): void {
    this.metrics.usage = usage;
    this.metrics.isEstimate = isEstimate;
    this.#sink.usage?.(usage, isEstimate);
  }

  #count(characters: number): void {
    this.#root.started = true;
    this.metrics.outputCharacters += characters;
    if (this.#root === this) return;
    this.#root.#openChoices.add(this);
    this.metrics.hasOpenChoice = true;
  }
}
