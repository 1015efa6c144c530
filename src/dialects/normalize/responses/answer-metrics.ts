import type { AnswerSink, Citation, FinishReason, ReasoningName } from '../../../core/answer.ts';
import { charactersPerImage, charactersPerToken, type Usage } from '../../../core/usage.ts';
import type { AnswerMetrics, UpstreamFailure } from '../../dialect.ts';
import { MalformedAnswer } from '../../failure.ts';
import type { ToolNames } from '../requests/tools.ts';

/** What the meter and the log need to know about an answer, noted while it comes. */
export class RecordedMetrics implements AnswerMetrics {
  finishReason: string | undefined = undefined;
  /** Whether other choices go on after the first, whose finish reason `finishReason` is. */
  hasOpenChoice = false;
  outputCharacters = 0;
  failure: UpstreamFailure | undefined = undefined;
  #usage: Usage | undefined = undefined;
  #isReportedEstimate = false;
  /** How many of the characters came before the last usage report, or with it. */
  #countedCharacters = 0;

  /** The last report, and estimated words after it: a broken answer gets no further report. */
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

  /** Notes that the last report counts all words so far. */
  markCounted(): void {
    this.#countedCharacters = this.outputCharacters;
  }

  /**
   * Characters that no report has counted. A report of no output is about the prompt alone and
   * counts none. After the end, any report counts as complete, unless it has no output and words
   * followed it.
   */
  get #uncounted(): number {
    const behind = this.outputCharacters - this.#countedCharacters;
    const isOfPrompt = this.#usage?.outputTokens === 0;
    const hasEnded = this.finishReason !== undefined && !this.hasOpenChoice;
    if (hasEnded && !(isOfPrompt && behind > 0)) return 0;
    return isOfPrompt ? this.outputCharacters : behind;
  }
}

/**
 * Adds an estimate of the words that came after a count. Hardly any text takes more than one token
 * per character: a count above that for the words before it may include later words. Then only the
 * excess of an estimate of all words over the count is added, so that nobody pays twice.
 */
function addUncounted(usage: Usage, counted: number, uncounted: number): Usage {
  const { outputTokens } = usage;
  const remaining = tokensIn(counted + uncounted) - outputTokens;
  const behind = tokensIn(uncounted);
  const more = outputTokens > counted ? Math.min(behind, remaining) : behind;
  return more > 0 ? { ...usage, outputTokens: outputTokens + more } : usage;
}

function tokensIn(characters: number): number {
  return Math.ceil(characters / charactersPerToken);
}

/**
 * Tells a picture by its address. Some clients' formats have pictures only as bytes: they get a
 * Markdown link, which most of them show and the others let users copy.
 */
export function emitImageUrl(url: string, sink: AnswerSink): void {
  const escapedUrl = url.replace(/[ ()]/g, (letter) => `%${letter.charCodeAt(0).toString(16)}`);
  if (sink.imageAt) sink.imageAt(url);
  else sink.text(`\n![image](${escapedUrl})\n`);
}

/** What an answer comes to for the meter and the log, counted while it is told. */

/** Finish reasons in the words of the log, which are OpenAI's. */
export const openAiFinishReasons: Readonly<Record<FinishReason, string>> = {
  stop: 'stop',
  stop_sequence: 'stop',
  length: 'length',
  context: 'length',
  tool_calls: 'tool_calls',
  content_filter: 'content_filter',
  pause: 'stop',
};

/** Passes an answer on and notes its facts. */
export class MeteringSink implements AnswerSink {
  readonly metrics: RecordedMetrics;
  /** Whether the answer has said anything. */
  started = false;
  readonly #sink: AnswerSink;
  readonly #names: ToolNames | undefined;
  /** The tally of the first choice, which keeps the totals of all choices. */
  readonly #root: MeteringSink;
  /** Used in the first tally: the other choices that have begun and not ended. */
  readonly #openChoices = new Set<MeteringSink>();

  constructor(sink: AnswerSink, names?: ToolNames, root?: MeteringSink) {
    this.#sink = sink;
    this.#names = names;
    this.#root = root ?? this;
    this.metrics = root?.metrics ?? new RecordedMetrics();
  }

  choice(number: number): AnswerSink | undefined {
    const sink = this.#sink.choice?.(number);
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

  /** A call without a name cannot be run, and upstreams refuse a conversation that contains one. */
  toolCall(call: number, id: string, name: string): void {
    if (name === '') throw new MalformedAnswer('a tool call without a name');
    this.#count(name.length);
    this.#sink.toolCall(call, id, this.#names?.restore(name) ?? name);
  }

  toolArguments(call: number, json: string): void {
    this.#count(json.length);
    this.#sink.toolArguments(call, json);
  }

  refusal(text: string): void {
    this.#count(text.length);
    this.#sink.refusal(text);
  }

  citation(citation: Citation): void {
    this.#sink.citation(citation);
  }

  image(mediaType: string, base64: string): void {
    this.#count(charactersPerImage);
    this.#sink.image(mediaType, base64);
  }

  imageAt(url: string): void {
    this.#count(charactersPerImage);
    emitImageUrl(url, this.#sink);
  }

  finish(reason: FinishReason, stopSequence: string | null, rawReason?: string): void {
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
