/** Writes neutral events as the output items of a response, and as the events of a stream. */
import type { AnswerSink, Citation, FinishReason, WebSearch } from '../../../core/answer.ts';
import type { ReplyIdentity } from '../../dialect.ts';
import { freeFormInput } from '../../normalize/requests/tools.ts';
import { codePointLength } from '../../normalize/responses/counts.ts';
import { answerId } from '../../normalize/responses/identity.ts';
import { EndedCalls, JsonEndScanner } from '../../normalize/responses/tool-arguments.ts';
import { writeRedacted, writeSignature } from '../reasoning-signature.ts';
import {
  type CallItem,
  type Content,
  contentPosition,
  type ItemPosition,
  idPrefixes,
  isCompleteCall,
  itemPosition,
  type MessageItem,
  type ReasoningItem,
  type Status,
  summaryOf,
  writeCall,
  writeMessage,
  writeReasoning,
} from './output-items.ts';
import { type Echo, isIncomplete } from './response-object.ts';
import { type SearchStatus, searchIdPrefix, writeSearch } from './searches.ts';
import type { ClientTools } from './tools.ts';

/** The refusal of a provider that has no text for it, only a reason why its answer ended. */
const unexplainedRefusal = 'The provider stopped this answer because of its content policy.';

/** Receives the events of a streamed response. A non-streaming response has none. */
export interface EventOutput {
  emit(type: string, fields: object): void;
  /**
   * Counts the content that is stored until the end. Throws if the content or the items exceed
   * their limit.
   */
  trackSize(characters: number, items: number): void;
}

/** Keeps at most one message and one reasoning item open, but any number of tool calls. */
export class OutputWriter implements AnswerSink {
  /** The finished items by index. An open item leaves a gap. */
  protected readonly output: object[] = [];
  protected reason: FinishReason = 'stop';
  protected readonly identity: ReplyIdentity;
  protected readonly echo: Echo;
  readonly #events: EventOutput | undefined;
  readonly #clientTools: ClientTools;
  /** The number of items that have started, including finished ones. */
  #items = 0;
  readonly #calls = new Map<number, CallItem>();
  readonly #ended = new EndedCalls();
  #message: MessageItem | undefined;
  /** The length of the answer's text so far, and where its last part starts. */
  #textLength = 0;
  #partStart = 0;
  #reasoning: ReasoningItem | undefined;
  #hasRefusal = false;

  constructor(identity: ReplyIdentity, clientTools: ClientTools, echo: Echo, events?: EventOutput) {
    this.identity = identity;
    this.echo = echo;
    this.#clientTools = clientTools;
    this.#events = events;
  }

  text(text: string): void {
    if (text === '') return;
    this.#trackSize(text.length);
    const { at, part } = this.#ensureContent('output_text');
    if (part.type === 'output_text') part.text += text;
    this.#textLength += codePointLength(text);
    this.#events?.emit('response.output_text.delta', { ...at, delta: text, logprobs: [] });
  }

  refusal(text: string): void {
    if (text === '') return;
    this.#hasRefusal = true;
    this.#trackSize(text.length);
    const { at, part } = this.#ensureContent('refusal');
    if (part.type === 'refusal') part.refusal += text;
    this.#events?.emit('response.refusal.delta', { ...at, delta: text });
  }

  reasoning(text: string): void {
    if (text === '') return;
    this.#trackSize(text.length);
    const item = this.#ensureReasoning();
    const at = { ...itemPosition(item), summary_index: 0 };
    if (item.text === '') {
      this.#events?.emit('response.reasoning_summary_part.added', { ...at, part: summaryOf('') });
    }
    item.text += text;
    this.#events?.emit('response.reasoning_summary_text.delta', { ...at, delta: text });
  }

  reasoningSignature(signature: string): void {
    this.#trackSize(signature.length);
    this.#ensureReasoning().encrypted = writeSignature(signature);
    this.#endReasoning();
  }

  redactedReasoning(data: string): void {
    this.#trackSize(data.length);
    this.#endReasoning();
    this.#ensureReasoning().encrypted = writeRedacted(data);
    this.#endReasoning();
  }

  toolCall(call: number, id: string, name: string): void {
    this.#endMessage('completed');
    this.#endReasoning();
    const clientTool = this.#clientTools.clientToolFor(name);
    const open: CallItem = {
      ...this.#next(idPrefixes[clientTool.type]),
      callId: id,
      clientTool,
      end: new JsonEndScanner(),
      json: '',
    };
    this.#calls.set(call, open);
    this.#add(open, writeCall(open, 'in_progress'));
  }

  toolArguments(call: number, json: string): void {
    if (json === '') return;
    const open = this.#calls.get(call);
    if (!open) {
      this.#ended.rejectTrailing(call, json);
      return;
    }
    this.#trackSize(json.length);
    open.json += json;
    const wasComplete = open.end.isComplete;
    open.end.push(json);
    // Free-form input has to be extracted from its JSON first, and a search is sent complete.
    if (open.clientTool.type === 'function') {
      this.#events?.emit('response.function_call_arguments.delta', {
        ...itemPosition(open),
        delta: json,
      });
    }
    if (open.end.isComplete && !wasComplete && isCompleteCall(open))
      this.#endCall(call, open, 'completed');
  }

  citation({ url, title, range }: Citation): void {
    const message = this.#message;
    const part = message?.content.at(-1);
    // A citation belongs to the text part that it refers to, which may already be closed.
    if (!message || part?.type !== 'output_text') return;
    const { start, end } = range ?? { start: this.#partStart, end: this.#textLength };
    const [start_index, end_index] = [start, end].map((at) => Math.max(0, at - this.#partStart));
    const annotation = { type: 'url_citation', url, title, start_index, end_index };
    this.#trackSize(JSON.stringify(annotation).length);
    this.#events?.emit('response.output_text.annotation.added', {
      ...contentPosition(message),
      annotation_index: part.annotations.length,
      annotation,
    });
    part.annotations.push(annotation);
  }

  webSearch(search: WebSearch): void {
    this.#endAll('completed');
    const item = this.#next(searchIdPrefix);
    const write = (status: SearchStatus) =>
      writeSearch(item.id, search, status, this.echo.showsSearchSources);
    const at = itemPosition(item);
    this.#add(item, write('in_progress'));
    this.#events?.emit('response.web_search_call.in_progress', at);
    this.#events?.emit('response.web_search_call.searching', at);
    // OpenAI has no event for a search that failed.
    if (search.error === null) this.#events?.emit('response.web_search_call.completed', at);
    const done = write(search.error === null ? 'completed' : 'failed');
    this.#trackSize(JSON.stringify(done).length);
    this.#done(item, done);
  }

  image(_mediaType: string, base64: string): void {
    this.#trackSize(base64.length);
    this.#endAll('completed');
    const item = this.#next('ig');
    const fields = { id: item.id, type: 'image_generation_call' };
    this.#add(item, { ...fields, status: 'in_progress', result: null });
    this.#done(item, { ...fields, status: 'completed', result: base64 });
  }

  finish(reason: FinishReason): void {
    this.reason = reason;
  }

  /** Ends all open items. Called when no more content can follow. */
  protected endItems(): void {
    const status = isIncomplete(this.reason) ? 'incomplete' : 'completed';
    if (this.reason === 'content_filter' && !this.#hasRefusal) {
      this.#endCalls(status);
      this.refusal(unexplainedRefusal);
    }
    this.#endAll(status);
  }

  #trackSize(characters: number): void {
    this.#events?.trackSize(characters, this.#items);
  }

  #next(kind: string): ItemPosition {
    const index = this.#items;
    this.#items += 1;
    const number = index.toString(16).padStart(4, '0');
    return { id: answerId(kind, this.identity.id) + number, index };
  }

  #add({ index }: ItemPosition, item: object): void {
    this.#trackSize(JSON.stringify(item).length);
    this.#events?.emit('response.output_item.added', { output_index: index, item });
  }

  #done({ index }: ItemPosition, item: object): void {
    this.output[index] = item;
    this.#events?.emit('response.output_item.done', { output_index: index, item });
  }

  /** Returns the part for the next content, starting one if necessary. */
  #ensureContent(type: Content['type']): { at: object; part: Content } {
    const message = this.#message ?? this.#openMessage();
    let part = message.content.at(-1);
    if (part?.type !== type) {
      this.#endContent(message);
      part =
        type === 'refusal'
          ? { type, refusal: '' }
          : { type, annotations: [], logprobs: [], text: '' };
      message.content.push(part);
      this.#partStart = this.#textLength;
      this.#trackSize(JSON.stringify(part).length);
      this.#events?.emit('response.content_part.added', {
        ...contentPosition(message),
        part: { ...part },
      });
    }
    return { at: contentPosition(message), part };
  }

  #openMessage(): MessageItem {
    this.#endReasoning();
    this.#endCalls('completed');
    const message: MessageItem = { ...this.#next('msg'), content: [] };
    this.#message = message;
    this.#add(message, writeMessage(message, 'in_progress'));
    return message;
  }

  #endContent(message: MessageItem): void {
    const part = message.content.at(-1);
    if (!part) return;
    const at = contentPosition(message);
    if (part.type === 'refusal') {
      this.#events?.emit('response.refusal.done', { ...at, refusal: part.refusal });
    } else {
      this.#events?.emit('response.output_text.done', { ...at, text: part.text, logprobs: [] });
    }
    this.#events?.emit('response.content_part.done', { ...at, part });
  }

  #endMessage(status: Status): void {
    const message = this.#message;
    if (!message) return;
    this.#endContent(message);
    this.#message = undefined;
    this.#done(message, writeMessage(message, status));
  }

  #ensureReasoning(): ReasoningItem {
    if (this.#reasoning) return this.#reasoning;
    this.#endMessage('completed');
    this.#endCalls('completed');
    const item: ReasoningItem = { ...this.#next('rs'), text: '', encrypted: '' };
    this.#reasoning = item;
    this.#add(item, writeReasoning(item));
    return item;
  }

  #endReasoning(): void {
    const item = this.#reasoning;
    if (!item) return;
    this.#reasoning = undefined;
    if (item.text !== '') {
      const at = { ...itemPosition(item), summary_index: 0 };
      const { text } = item;
      this.#events?.emit('response.reasoning_summary_text.done', { ...at, text });
      this.#events?.emit('response.reasoning_summary_part.done', { ...at, part: summaryOf(text) });
    }
    this.#done(item, writeReasoning(item));
  }

  #endCall(call: number, open: CallItem, ended: Status): void {
    const status = open.end.isCut ? 'incomplete' : ended;
    this.#calls.delete(call);
    const at = itemPosition(open);
    if (open.clientTool.type === 'custom') {
      const input = freeFormInput(open.json);
      if (input !== '')
        this.#events?.emit('response.custom_tool_call_input.delta', { ...at, delta: input });
      this.#events?.emit('response.custom_tool_call_input.done', { ...at, input });
    } else if (open.clientTool.type === 'function') {
      // A call without arguments gets an empty object. It is also sent as a delta, because clients
      // join deltas.
      if (open.json.trim() === '' && status === 'completed') {
        open.json += '{}';
        this.#events?.emit('response.function_call_arguments.delta', { ...at, delta: '{}' });
      }
      const { name } = open.clientTool;
      this.#events?.emit('response.function_call_arguments.done', {
        ...at,
        name,
        arguments: open.json,
      });
    }
    this.#done(open, writeCall(open, status));
  }

  #endCalls(status: Status): void {
    for (const [call, open] of this.#calls) {
      this.#ended.add(call, open.json.trim() === '');
      this.#endCall(call, open, status);
    }
  }

  #endAll(status: Status): void {
    this.#endMessage(status);
    this.#endReasoning();
    this.#endCalls(status);
  }
}
