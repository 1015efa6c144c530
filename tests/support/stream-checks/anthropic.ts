/** The state machine of Anthropic's streams, as its clients expect it. */
import { check, type Fields, fieldsOf, isFields, readNamedEvents, textOf } from './events.ts';

export interface AnthropicReading {
  ended: 'complete' | 'error' | 'cut';
  id: string;
  model: string;
  text: string;
  thinking: string;
  readonly signatures: string[];
  readonly redacted: string[];
  readonly tools: { id: string; name: string; input: unknown }[];
  readonly citations: Fields[];
  /** The types of all blocks, in order. */
  readonly blocks: string[];
  stopReason: string | null;
  stopSequence: unknown;
  usage: Fields;
  pings: number;
  error: Fields | null;
}

interface OpenBlock {
  readonly type: string;
  readonly index: number;
  json: string;
  text: string;
  signature: string;
  readonly start: Fields;
}

const stopReasons = [
  'end_turn',
  'max_tokens',
  'stop_sequence',
  'tool_use',
  'pause_turn',
  'refusal',
  'model_context_window_exceeded',
];

const deltaTypes: Readonly<Record<string, readonly string[]>> = {
  text: ['text_delta', 'citations_delta'],
  thinking: ['thinking_delta', 'signature_delta'],
  tool_use: ['input_json_delta'],
  redacted_thinking: [],
  image: [],
};

class Machine {
  readonly seen: AnthropicReading = {
    ended: 'cut',
    id: '',
    model: '',
    text: '',
    thinking: '',
    signatures: [],
    redacted: [],
    tools: [],
    citations: [],
    blocks: [],
    stopReason: null,
    stopSequence: null,
    usage: {},
    pings: 0,
    error: null,
  };
  #open: OpenBlock | undefined;
  #hasBegun = false;
  #hasDelta = false;

  take(event: Fields): void {
    const { seen } = this;
    const type = textOf(event.type);
    check(seen.ended === 'cut', `${type} comes after the end`);
    if (type === 'error') {
      this.#fail(event);
      return;
    }
    check(
      this.#hasBegun !== (type === 'message_start'),
      `${type} at the wrong end of message_start`,
    );
    check(!this.#hasDelta || type === 'message_stop', `${type} comes after message_delta`);
    switch (type) {
      case 'message_start':
        this.#begin(fieldsOf(event.message, 'message'));
        break;
      case 'ping':
        seen.pings += 1;
        break;
      case 'content_block_start':
        this.#start(event);
        break;
      case 'content_block_delta':
        this.#delta(event);
        break;
      case 'content_block_stop':
        this.#stop(event);
        break;
      case 'message_delta':
        this.#end(event);
        break;
      case 'message_stop':
        check(this.#hasDelta, 'message_stop comes without message_delta');
        seen.ended = 'complete';
        break;
      default:
        check(false, `the event ${type} is unknown`);
    }
  }

  #fail(event: Fields): void {
    const error = fieldsOf(event.error, 'error');
    check(/^[a-z_]+$/.test(textOf(error.type)), 'the error has no type');
    check(textOf(error.message) !== '', 'the error has no message');
    this.seen.ended = 'error';
    this.seen.error = error;
  }

  #begin(message: Fields): void {
    this.#hasBegun = true;
    check(message.type === 'message' && message.role === 'assistant', 'message is none');
    check(Array.isArray(message.content) && message.content.length === 0, 'content begins empty');
    check(message.stop_reason === null, 'it begins with a stop reason');
    this.seen.id = textOf(message.id);
    this.seen.model = textOf(message.model);
    check(this.seen.id.startsWith('msg_') && this.seen.model !== '', 'message has no names');
    this.#count(fieldsOf(message.usage, 'usage'));
  }

  #count(usage: Fields): void {
    for (const name of ['input_tokens', 'output_tokens']) {
      check(Number.isSafeInteger(usage[name]), `usage.${name} is ${usage[name]}`);
    }
    this.seen.usage = usage;
  }

  #start(event: Fields): void {
    const block = fieldsOf(event.content_block, 'content_block');
    const type = textOf(block.type);
    check(this.#open === undefined, `a ${type} block starts inside another`);
    check(event.index === this.seen.blocks.length, `block ${event.index} is not the next`);
    this.seen.blocks.push(type);
    const { index } = event;
    check(typeof index === 'number', 'the index is no number');
    this.#open = { type, index, json: '', text: '', signature: '', start: block };
    if (type === 'tool_use') {
      check(/^[\w.:-]+$/.test(textOf(block.id)) && textOf(block.name) !== '', 'a tool has no name');
      check(isFields(block.input) && Object.keys(block.input).length === 0, 'input begins empty');
    }
    if (type === 'text') check(block.text === '', 'a text block begins with text');
    if (type === 'thinking')
      check(block.thinking === '' && block.signature === '', 'a thought does');
    if (type === 'redacted_thinking') this.seen.redacted.push(textOf(block.data));
  }

  #delta(event: Fields): void {
    const open = this.#open;
    check(open !== undefined && open.index === event.index, `block ${event.index} is not open`);
    const delta = fieldsOf(event.delta, 'delta');
    const type = textOf(delta.type);
    const allowed = deltaTypes[open.type];
    check(!allowed || allowed.includes(type), `${type} inside a ${open.type} block`);
    check(open.signature === '', `${type} comes behind the signature`);
    open.json += textOf(delta.partial_json);
    open.text += textOf(delta.text) + textOf(delta.thinking);
    if (type === 'signature_delta') open.signature = textOf(delta.signature);
    if (type === 'citations_delta') this.seen.citations.push(fieldsOf(delta.citation, 'citation'));
    if (open.type === 'text') this.seen.text += textOf(delta.text);
    if (open.type === 'thinking') this.seen.thinking += textOf(delta.thinking);
  }

  #stop(event: Fields): void {
    const open = this.#open;
    check(open !== undefined && open.index === event.index, `block ${event.index} is not open`);
    this.#open = undefined;
    if (open.type === 'text') check(open.text !== '', 'a text block is empty');
    if (open.signature !== '') this.seen.signatures.push(open.signature);
    if (open.type !== 'tool_use') return;
    const input: unknown = open.json === '' ? {} : tolerantParse(open.json);
    const { id, name } = open.start;
    this.seen.tools.push({ id: textOf(id), name: textOf(name), input });
  }

  #end(event: Fields): void {
    check(this.#open === undefined, 'message_delta comes while a block is open');
    this.#hasDelta = true;
    const delta = fieldsOf(event.delta, 'delta');
    const reason = textOf(delta.stop_reason);
    check(stopReasons.includes(reason), `the stop reason is ${reason}`);
    const isBroken = this.seen.tools.some(({ input }) => !isFields(input));
    check(reason === 'max_tokens' || !isBroken, 'the input of a tool is no object');
    check(reason !== 'tool_use' || this.seen.tools.length > 0, 'there is no tool to use');
    this.seen.stopReason = reason;
    this.seen.stopSequence = delta.stop_sequence;
    this.#count({ ...this.seen.usage, ...fieldsOf(event.usage, 'usage') });
  }
}

/** Only an answer that ran out of tokens may end inside the input of a tool. */
function tolerantParse(json: string): unknown {
  try {
    return JSON.parse(json);
  } catch {
    return undefined;
  }
}

export function checkAnthropicStream(text: string): AnthropicReading {
  const machine = new Machine();
  readNamedEvents(text, (fields) => machine.take(fields));
  return machine.seen;
}
