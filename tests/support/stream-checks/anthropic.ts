/** Checks Anthropic streams with the state machine that its clients expect. */
import { check, type Fields, fieldsOf, isFields, readNamedEvents, textOf } from './events.ts';

export interface AnthropicReading {
  ended: 'complete' | 'error' | 'truncated';
  id: string;
  model: string;
  text: string;
  thinking: string;
  readonly signatures: string[];
  readonly redacted: string[];
  readonly tools: { id: string; name: string; input: unknown }[];
  readonly citations: Fields[];
  /** The types of all blocks in order. */
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
  server_tool_use: ['input_json_delta'],
  web_search_tool_result: [],
  redacted_thinking: [],
  image: [],
};

class Machine {
  readonly reading: AnthropicReading = {
    ended: 'truncated',
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
    const { reading } = this;
    const type = textOf(event.type);
    check(reading.ended === 'truncated', `${type} follows the end`);
    if (type === 'error') {
      this.#fail(event);
      return;
    }
    check(
      this.#hasBegun !== (type === 'message_start'),
      type === 'message_start' ? 'message_start is repeated' : `${type} precedes message_start`,
    );
    check(!this.#hasDelta || type === 'message_stop', `${type} follows message_delta`);
    switch (type) {
      case 'message_start':
        this.#begin(fieldsOf(event.message, 'message'));
        break;
      case 'ping':
        reading.pings += 1;
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
        check(this.#hasDelta, 'message_stop has no message_delta before it');
        reading.ended = 'complete';
        break;
      default:
        check(false, `unknown event ${type}`);
    }
  }

  #fail(event: Fields): void {
    const error = fieldsOf(event.error, 'error');
    check(/^[a-z_]+$/.test(textOf(error.type)), 'the error has no valid type');
    check(textOf(error.message) !== '', 'the error has no message');
    this.reading.ended = 'error';
    this.reading.error = error;
  }

  #begin(message: Fields): void {
    this.#hasBegun = true;
    check(
      message.type === 'message' && message.role === 'assistant',
      'message_start has no assistant message',
    );
    check(
      Array.isArray(message.content) && message.content.length === 0,
      'the initial content is not empty',
    );
    check(message.stop_reason === null, 'message_start has a stop reason');
    this.reading.id = textOf(message.id);
    this.reading.model = textOf(message.model);
    check(
      this.reading.id.startsWith('msg_') && this.reading.model !== '',
      'the message has no ID or model',
    );
    this.#count(fieldsOf(message.usage, 'usage'));
  }

  #count(usage: Fields): void {
    for (const name of ['input_tokens', 'output_tokens']) {
      check(Number.isSafeInteger(usage[name]), `usage.${name} is ${usage[name]}`);
    }
    this.reading.usage = usage;
  }

  #start(event: Fields): void {
    const block = fieldsOf(event.content_block, 'content_block');
    const type = textOf(block.type);
    check(this.#open === undefined, `a ${type} block starts in an open block`);
    check(
      event.index === this.reading.blocks.length,
      `the block index ${event.index} is not the next one`,
    );
    this.reading.blocks.push(type);
    const { index } = event;
    check(typeof index === 'number', 'the index is not a number');
    this.#open = { type, index, json: '', text: '', signature: '', start: block };
    if (type === 'tool_use') {
      check(
        /^[\w.:-]+$/.test(textOf(block.id)) && textOf(block.name) !== '',
        'a tool call has no ID or name',
      );
      check(
        isFields(block.input) && Object.keys(block.input).length === 0,
        'the initial input is not empty',
      );
    }
    if (type === 'text') check(block.text === '', 'the initial text is not empty');
    if (type === 'thinking')
      check(block.thinking === '' && block.signature === '', 'the initial thinking is not empty');
    if (type === 'redacted_thinking') this.reading.redacted.push(textOf(block.data));
  }

  #delta(event: Fields): void {
    const open = this.#open;
    check(open !== undefined && open.index === event.index, `block ${event.index} is not open`);
    const delta = fieldsOf(event.delta, 'delta');
    const type = textOf(delta.type);
    const allowed = deltaTypes[open.type];
    check(!allowed || allowed.includes(type), `${type} in a ${open.type} block`);
    check(open.signature === '', `${type} follows the signature`);
    open.json += textOf(delta.partial_json);
    open.text += textOf(delta.text) + textOf(delta.thinking);
    if (type === 'signature_delta') open.signature = textOf(delta.signature);
    if (type === 'citations_delta')
      this.reading.citations.push(fieldsOf(delta.citation, 'citation'));
    if (open.type === 'text') this.reading.text += textOf(delta.text);
    if (open.type === 'thinking') this.reading.thinking += textOf(delta.thinking);
  }

  #stop(event: Fields): void {
    const open = this.#open;
    check(open !== undefined && open.index === event.index, `block ${event.index} is not open`);
    this.#open = undefined;
    if (open.type === 'text') check(open.text !== '', 'a text block is empty');
    if (open.signature !== '') this.reading.signatures.push(open.signature);
    if (open.type !== 'tool_use') return;
    const input: unknown = open.json === '' ? {} : tolerantParse(open.json);
    const { id, name } = open.start;
    this.reading.tools.push({ id: textOf(id), name: textOf(name), input });
  }

  #end(event: Fields): void {
    check(this.#open === undefined, 'message_delta arrives while a block is open');
    this.#hasDelta = true;
    const delta = fieldsOf(event.delta, 'delta');
    const reason = textOf(delta.stop_reason);
    check(stopReasons.includes(reason), `unknown stop reason ${reason}`);
    const isBroken = this.reading.tools.some(({ input }) => !isFields(input));
    check(reason === 'max_tokens' || !isBroken, 'the input of a tool call is not an object');
    check(
      reason !== 'tool_use' || this.reading.tools.length > 0,
      'tool_use is the stop reason without a tool call',
    );
    this.reading.stopReason = reason;
    this.reading.stopSequence = delta.stop_sequence;
    this.#count({ ...this.reading.usage, ...fieldsOf(event.usage, 'usage') });
  }
}

/** Returns undefined for incomplete JSON, which is valid only at the token limit. */
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
  return machine.reading;
}
