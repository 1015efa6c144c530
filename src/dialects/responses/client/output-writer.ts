/** An answer told in our words, as the items of an output and the events that tell of them. */
import type { AnswerSink, Citation, FinishReason } from '../../../core/answer.ts';
import { fieldsOf } from '../../../core/json.ts';
import type { ReplyIdentity } from '../../dialect.ts';
import { parseArguments } from '../../normalize/exact-json.ts';
import { freeFormInput } from '../../normalize/requests/tools.ts';
import { codePointLength } from '../../normalize/responses/counts.ts';
import { answerId } from '../../normalize/responses/identity.ts';
import { EndedCalls, JsonEndScanner } from '../../normalize/responses/tool-arguments.ts';
import { writeRedacted, writeSignature } from '../reasoning-signature.ts';
import { type Echo, isIncomplete } from './response-object.ts';
import type { ToolForm, ToolForms } from './tools.ts';
import { searchArguments } from './tools.ts';

interface OpenItem {
  readonly id: string;
  readonly index: number;
}

type Content =
  | { readonly type: 'output_text'; readonly annotations: object[]; text: string }
  | { readonly type: 'refusal'; refusal: string };

interface OpenMessage extends OpenItem {
  readonly content: Content[];
}

interface OpenThought extends OpenItem {
  text: string;
  encrypted: string;
}

interface OpenCall extends OpenItem {
  readonly callId: string;
  readonly form: ToolForm;
  readonly end: JsonEndScanner;
  json: string;
}

type Status = 'in_progress' | 'completed' | 'incomplete';

const idBeginnings: Readonly<Record<ToolForm['type'], string>> = {
  function: 'fc',
  custom: 'ctc',
  tool_search: 'tsc',
};

/** Several tool calls may be open at a time, but only one message and one thought. */
export abstract class OutputWriter implements AnswerSink {
  /** The finished items at their places; an open item leaves a gap. */
  protected readonly output: object[] = [];
  protected reason: FinishReason = 'stop';
  /** How many items have begun, finished or not. */
  protected items = 0;
  protected readonly identity: ReplyIdentity;
  protected readonly echo: Echo;
  readonly #forms: ToolForms;
  readonly #calls = new Map<number, OpenCall>();
  readonly #ended = new EndedCalls();
  #message: OpenMessage | undefined;
  /** The length of the answer's text so far, and where its last part begins. */
  #textLength = 0;
  #partStart = 0;
  #thought: OpenThought | undefined;

  constructor(identity: ReplyIdentity, forms: ToolForms, echo: Echo) {
    this.identity = identity;
    this.#forms = forms;
    this.echo = echo;
  }

  /** Sends one event; a whole reply has none. */
  protected abstract emit(type: string, fields: object): void;
  /** Counts what has to be kept until the end. */
  protected abstract trackSize(characters: number): void;

  text(text: string): void {
    if (text === '') return;
    this.trackSize(text.length);
    const { at, part } = this.#ensureContent('output_text');
    if (part.type === 'output_text') part.text += text;
    this.#textLength += codePointLength(text);
    this.emit('response.output_text.delta', { ...at, delta: text, logprobs: [] });
  }

  refusal(text: string): void {
    if (text === '') return;
    this.trackSize(text.length);
    const { at, part } = this.#ensureContent('refusal');
    if (part.type === 'refusal') part.refusal += text;
    this.emit('response.refusal.delta', { ...at, delta: text });
  }

  reasoning(text: string): void {
    if (text === '') return;
    this.trackSize(text.length);
    const thought = this.#think();
    const at = { ...itemPosition(thought), summary_index: 0 };
    if (thought.text === '') {
      this.emit('response.reasoning_summary_part.added', { ...at, part: summaryOf('') });
    }
    thought.text += text;
    this.emit('response.reasoning_summary_text.delta', { ...at, delta: text });
  }

  reasoningSignature(signature: string): void {
    this.trackSize(signature.length);
    this.#think().encrypted = writeSignature(signature);
    this.#endThought();
  }

  redactedReasoning(data: string): void {
    this.trackSize(data.length);
    this.#endThought();
    this.#think().encrypted = writeRedacted(data);
    this.#endThought();
  }

  toolCall(call: number, id: string, name: string): void {
    this.#endMessage('completed');
    this.#endThought();
    const form = this.#forms.formOf(name);
    const open: OpenCall = {
      ...this.#next(idBeginnings[form.type]),
      callId: id,
      form,
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
    this.trackSize(json.length);
    open.json += json;
    const wasOver = open.end.isComplete;
    open.end.push(json);
    // A free-form text has to be taken out of its JSON first, and a search is told whole.
    if (open.form.type === 'function') {
      this.emit('response.function_call_arguments.delta', { ...itemPosition(open), delta: json });
    }
    if (open.end.isComplete && !wasOver && isRead(open)) this.#endCall(call, open, 'completed');
  }

  citation({ url, title, range }: Citation): void {
    const message = this.#message;
    const part = message?.content.at(-1);
    // A citation belongs in the part of its text, which may be closed by now.
    if (!message || part?.type !== 'output_text') return;
    const { start, end } = range ?? { start: this.#partStart, end: this.#textLength };
    const [start_index, end_index] = [start, end].map((at) => Math.max(0, at - this.#partStart));
    const annotation = { type: 'url_citation', url, title, start_index, end_index };
    this.trackSize(JSON.stringify(annotation).length);
    this.emit('response.output_text.annotation.added', {
      ...contentPosition(message),
      annotation_index: part.annotations.length,
      annotation,
    });
    part.annotations.push(annotation);
  }

  image(_mediaType: string, base64: string): void {
    this.trackSize(base64.length);
    this.#endAll('completed');
    const item = this.#next('ig');
    const fields = { id: item.id, type: 'image_generation_call' };
    this.#add(item, { ...fields, status: 'in_progress', result: null });
    this.#done(item, { ...fields, status: 'completed', result: base64 });
  }

  finish(reason: FinishReason): void {
    this.reason = reason;
  }

  /** Ends all open items: nothing follows the finish reason. */
  protected endItems(): void {
    this.#endAll(isIncomplete(this.reason) ? 'incomplete' : 'completed');
  }

  #next(kind: string): OpenItem {
    const index = this.items;
    this.items += 1;
    const number = index.toString(16).padStart(4, '0');
    return { id: answerId(kind, this.identity.id) + number, index };
  }

  #add({ index }: OpenItem, item: object): void {
    this.trackSize(JSON.stringify(item).length);
    this.emit('response.output_item.added', { output_index: index, item });
  }

  #done({ index }: OpenItem, item: object): void {
    this.output[index] = item;
    this.emit('response.output_item.done', { output_index: index, item });
  }

  /** The part of the message that the next words go into, begun here if necessary. */
  #ensureContent(type: Content['type']): { at: object; part: Content } {
    const message = this.#message ?? this.#openMessage();
    let part = message.content.at(-1);
    if (part?.type !== type) {
      this.#endContent(message);
      part = type === 'refusal' ? { type, refusal: '' } : { type, annotations: [], text: '' };
      message.content.push(part);
      this.#partStart = this.#textLength;
      this.trackSize(JSON.stringify(part).length);
      this.emit('response.content_part.added', { ...contentPosition(message), part: { ...part } });
    }
    return { at: contentPosition(message), part };
  }

  #openMessage(): OpenMessage {
    this.#endThought();
    this.#endCalls('completed');
    const message: OpenMessage = { ...this.#next('msg'), content: [] };
    this.#message = message;
    this.#add(message, writeMessage(message, 'in_progress'));
    return message;
  }

  #endContent(message: OpenMessage): void {
    const part = message.content.at(-1);
    if (!part) return;
    const at = contentPosition(message);
    if (part.type === 'refusal') {
      this.emit('response.refusal.done', { ...at, refusal: part.refusal });
    } else {
      this.emit('response.output_text.done', { ...at, text: part.text, logprobs: [] });
    }
    this.emit('response.content_part.done', { ...at, part });
  }

  #endMessage(status: Status): void {
    const message = this.#message;
    if (!message) return;
    this.#endContent(message);
    this.#message = undefined;
    this.#done(message, writeMessage(message, status));
  }

  #think(): OpenThought {
    if (this.#thought) return this.#thought;
    this.#endMessage('completed');
    this.#endCalls('completed');
    const thought: OpenThought = { ...this.#next('rs'), text: '', encrypted: '' };
    this.#thought = thought;
    this.#add(thought, writeThought(thought));
    return thought;
  }

  #endThought(): void {
    const thought = this.#thought;
    if (!thought) return;
    this.#thought = undefined;
    if (thought.text !== '') {
      const at = { ...itemPosition(thought), summary_index: 0 };
      const { text } = thought;
      this.emit('response.reasoning_summary_text.done', { ...at, text });
      this.emit('response.reasoning_summary_part.done', { ...at, part: summaryOf(text) });
    }
    this.#done(thought, writeThought(thought));
  }

  #endCall(call: number, open: OpenCall, status: Status): void {
    this.#calls.delete(call);
    const at = itemPosition(open);
    if (open.form.type === 'custom') {
      const input = freeFormInput(open.json);
      if (input !== '') this.emit('response.custom_tool_call_input.delta', { ...at, delta: input });
      this.emit('response.custom_tool_call_input.done', { ...at, input });
    } else if (open.form.type === 'function') {
      // A call without arguments gets an empty object, as a delta too: clients add up deltas.
      if (open.json.trim() === '' && status === 'completed') {
        open.json += '{}';
        this.emit('response.function_call_arguments.delta', { ...at, delta: '{}' });
      }
      const { name } = open.form;
      this.emit('response.function_call_arguments.done', { ...at, name, arguments: open.json });
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
    this.#endThought();
    this.#endCalls(status);
  }
}

/** Whether complete JSON is a complete call: free text without its wrapping may go on after it. */
function isRead({ form, json }: OpenCall): boolean {
  return form.type !== 'custom' || typeof fieldsOf(parseArguments(json)).input === 'string';
}

function itemPosition({ id, index }: OpenItem) {
  return { item_id: id, output_index: index };
}

function contentPosition(message: OpenMessage) {
  return { ...itemPosition(message), content_index: message.content.length - 1 };
}

function summaryOf(text: string) {
  return { type: 'summary_text', text };
}

function writeMessage({ id, content }: OpenMessage, status: Status): object {
  return {
    id,
    type: 'message',
    role: 'assistant',
    status,
    content: content.map((part) =>
      part.type === 'output_text' ? { ...part, logprobs: [] } : part,
    ),
  };
}

function writeThought({ id, text, encrypted }: OpenThought): object {
  return {
    id,
    type: 'reasoning',
    summary: text === '' ? [] : [summaryOf(text)],
    ...(encrypted === '' ? {} : { encrypted_content: encrypted }),
  };
}

function writeCall({ id, callId, form, json }: OpenCall, status: Status): object {
  const { type, name, namespace } = form;
  const named = namespace === undefined ? { name } : { name, namespace };
  if (type === 'custom') {
    const input = status === 'in_progress' ? '' : freeFormInput(json);
    return { id, type: 'custom_tool_call', status, call_id: callId, ...named, input };
  }
  if (type === 'tool_search') {
    const call = { id, type: 'tool_search_call', status, call_id: callId, execution: 'client' };
    return { ...call, arguments: searchArguments(json) };
  }
  return { id, type: 'function_call', status, call_id: callId, ...named, arguments: json };
}
