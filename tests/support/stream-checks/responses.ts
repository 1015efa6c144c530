/** Checks streams of the Responses API with the state machine that OpenAI's clients expect. */
import { check, type Fields, fieldsOf, readNamedEvents, textOf } from './events.ts';

export interface ResponsesReading {
  ended: 'complete' | 'error' | 'truncated';
  id: string;
  model: string;
  status: string;
  incomplete: string | null;
  text: string;
  reasoning: string;
  refusal: string;
  readonly tools: {
    type: string;
    callId: string;
    name: string;
    namespace: unknown;
    input: string;
  }[];
  readonly annotations: Fields[];
  /** The items in their final form, by output index. */
  readonly items: Fields[];
  response: Fields;
  usage: Fields | null;
  error: Fields | null;
}

interface OpenPart {
  readonly type: string;
  readonly annotations: Fields[];
  text: string;
  isDone: boolean;
}

interface OpenItem {
  readonly id: string;
  readonly type: string;
  /** The content parts of a message or the reasoning summaries. The last one may be open. */
  readonly parts: OpenPart[];
  isPartOpen: boolean;
  input: string;
  isInputDone: boolean;
}

const prefixes: Readonly<Record<string, string>> = {
  message: 'msg_',
  reasoning: 'rs_',
  function_call: 'fc_',
  custom_tool_call: 'ctc_',
  web_search_call: 'ws_',
};

class Machine {
  readonly reading: ResponsesReading = {
    ended: 'truncated',
    id: '',
    model: '',
    status: '',
    incomplete: null,
    text: '',
    reasoning: '',
    refusal: '',
    tools: [],
    annotations: [],
    items: [],
    response: {},
    usage: null,
    error: null,
  };
  readonly #open = new Map<number, OpenItem>();
  #number = 0;
  #stage: 'nothing' | 'created' | 'running' = 'nothing';
  #added = 0;

  take(event: Fields): void {
    const type = textOf(event.type);
    const { reading } = this;
    const isFailure = type === 'response.failed' && reading.error !== null && reading.status === '';
    check(reading.ended === 'truncated' || isFailure, `${type} follows the end`);
    check(
      event.sequence_number === this.#number,
      `${type} has the sequence number ${event.sequence_number}`,
    );
    this.#number += 1;
    if (type === 'error') this.#fail(event);
    else if (type === 'response.created') this.#begin(event, 'nothing', 'created');
    else if (type === 'response.in_progress') this.#begin(event, 'created', 'running');
    else {
      check(this.#stage === 'running', `${type} precedes response.in_progress`);
      this.#run(type, event);
    }
  }

  #run(type: string, event: Fields): void {
    switch (type) {
      case 'response.completed':
      case 'response.incomplete':
        this.#end(type, fieldsOf(event.response, 'response'));
        break;
      case 'response.failed':
        this.#failed(fieldsOf(event.response, 'response'));
        break;
      case 'response.output_item.added':
        this.#add(event);
        break;
      case 'response.output_item.done':
        this.#done(event);
        break;
      default:
        this.#inside(type, event);
    }
  }

  #begin(event: Fields, from: string, to: 'created' | 'running'): void {
    check(this.#stage === from, `${String(event.type)} is in the wrong place`);
    this.#stage = to;
    const response = this.#named(fieldsOf(event.response, 'response'));
    check(response.status === 'in_progress', `the initial status is ${String(response.status)}`);
    check(
      Array.isArray(response.output) && response.output.length === 0,
      'the initial output is not empty',
    );
    check(response.usage === null, 'the initial response has usage');
  }

  #named(response: Fields): Fields {
    const { reading } = this;
    check(response.object === 'response', 'the object is not a response');
    const [id, model] = [textOf(response.id), textOf(response.model)];
    check(/^resp_\w+$/.test(id) && model !== '', 'a response has no ID or model');
    check(
      reading.id === '' || (reading.id === id && reading.model === model),
      'the ID or model changes',
    );
    [reading.id, reading.model] = [id, model];
    check(Number.isSafeInteger(response.created_at), 'created_at is not an integer');
    return response;
  }

  #fail(event: Fields): void {
    check(textOf(event.message) !== '', 'the error has no message');
    check(textOf(event.code) !== '', 'the error has no code');
    check('param' in event, 'the error has no param');
    // The error is sent in two forms. Some clients read one form, and some read the other.
    const { message, code } = fieldsOf(event.error, 'error');
    check(message === event.message && code === event.code, 'the two forms of the error differ');
    this.reading.error = event;
    this.reading.ended = 'error';
  }

  #failed(response: Fields): void {
    check(this.#named(response).status === 'failed', 'the status is not failed');
    const error = fieldsOf(response.error, 'error');
    check(
      textOf(error.message) !== '' && textOf(error.code) !== '',
      'the failure has no message or code',
    );
    this.reading.error ??= error;
    this.reading.ended = 'error';
    this.reading.status = 'failed';
  }

  #add(event: Fields): void {
    const item = fieldsOf(event.item, 'item');
    const [type, id] = [textOf(item.type), textOf(item.id)];
    check(
      event.output_index === this.#added,
      `the item index ${event.output_index} is not the next one`,
    );
    check(id.startsWith(prefixes[type] ?? '') && id !== '', `${type} has the ID ${id}`);
    if (type === 'message') {
      check(
        Array.isArray(item.content) && item.content.length === 0,
        'the initial content is not empty',
      );
      check(item.role === 'assistant', 'a message has no role');
    }
    if (type === 'reasoning') check(Array.isArray(item.summary), 'the reasoning has no summary');
    const isCall = type.endsWith('_call') && 'call_id' in item;
    if (isCall) check(textOf(item.call_id) !== '', 'a call has no ID');
    // A tool search has no name, and its arguments are sent as one object.
    const isSearch = type === 'tool_search_call';
    if (isCall && !isSearch) check(textOf(item.name) !== '', 'a call has no name');
    const input = isSearch ? item.arguments : (item.arguments ?? item.input ?? '');
    check(Bun.deepEquals(input, isSearch ? {} : ''), 'the initial arguments are not empty');
    const others = [...this.#open.values()];
    check(
      others.every((open) => isCall && open.type.endsWith('_call')),
      `${type} starts in an open item`,
    );
    const open = { id, type, parts: [], isPartOpen: false, input: '', isInputDone: false };
    this.#open.set(this.#added, open);
    this.#added += 1;
  }

  #itemOf(event: Fields, type: string): OpenItem {
    const open = this.#open.get(Number(event.output_index));
    check(open !== undefined, `${type} is for item ${event.output_index}, which is not open`);
    check(event.item_id === open.id, `${type} has the item ID ${event.item_id}`);
    return open;
  }

  #inside(type: string, event: Fields): void {
    const open = this.#itemOf(event, type);
    const [, kind = '', step = ''] = /^response\.(\w+(?:\.annotation)?)\.(\w+)$/.exec(type) ?? [];
    switch (kind) {
      case 'content_part':
      case 'reasoning_summary_part':
        this.#part(open, step, event);
        break;
      case 'output_text':
      case 'refusal':
      case 'reasoning_summary_text':
        this.#text(open, kind, step, event);
        break;
      case 'output_text.annotation':
        this.#annotate(open, event);
        break;
      case 'function_call_arguments':
      case 'custom_tool_call_input':
        this.#input(open, kind, step, event);
        break;
      case 'web_search_call':
        check(open.type === kind, `${type} is for a ${open.type}`);
        break;
      default:
        check(false, `unknown event ${type}`);
    }
  }

  #part(open: OpenItem, step: string, event: Fields): void {
    const part = fieldsOf(event.part, 'part');
    const index = event.content_index ?? event.summary_index;
    const isSummary = part.type === 'summary_text';
    check(isSummary === (open.type === 'reasoning'), `${part.type} in a ${open.type}`);
    if (step === 'added') {
      check(
        !open.isPartOpen && index === open.parts.length,
        `the part index ${index} is not the next one`,
      );
      check((part.text ?? part.refusal) === '', 'the initial part is not empty');
      const type = textOf(part.type);
      if (type === 'output_text')
        check(Array.isArray(part.annotations), 'a part has no annotations');
      open.parts.push({ type, annotations: [], text: '', isDone: false });
      open.isPartOpen = true;
      return;
    }
    const last = open.parts.at(-1);
    check(open.isPartOpen && last !== undefined, 'a part ends but is not open');
    check(
      last.isDone && (part.text ?? part.refusal) === last.text,
      'a part differs from its deltas',
    );
    if (last.type === 'output_text') {
      check(
        Bun.deepEquals(part.annotations, last.annotations),
        'a part differs from its annotations',
      );
    }
    open.isPartOpen = false;
  }

  #text(open: OpenItem, kind: string, step: string, event: Fields): void {
    const part = open.parts.at(-1);
    const type = kind === 'reasoning_summary_text' ? 'summary_text' : kind;
    check(open.isPartOpen && part?.type === type, `${kind} is outside its part`);
    const index = event.content_index ?? event.summary_index;
    check(index === open.parts.length - 1, `${kind} has the part index ${index}`);
    check(!part.isDone, `${kind} follows its end`);
    if (step === 'delta') {
      check(textOf(event.delta) !== '', 'a delta is empty');
      part.text += textOf(event.delta);
      return;
    }
    check((event.text ?? event.refusal) === part.text, `${kind}.done differs from its deltas`);
    part.isDone = true;
    if (type === 'output_text') this.reading.text += part.text;
    else if (type === 'refusal') this.reading.refusal += part.text;
    else this.reading.reasoning += part.text;
  }

  #annotate(open: OpenItem, event: Fields): void {
    const part = open.parts.at(-1);
    check(open.isPartOpen && part?.type === 'output_text', 'an annotation is outside a text part');
    check(
      event.annotation_index === part.annotations.length,
      'the annotation index is not the next one',
    );
    const annotation = fieldsOf(event.annotation, 'annotation');
    part.annotations.push(annotation);
    this.reading.annotations.push(annotation);
  }

  #input(open: OpenItem, kind: string, step: string, event: Fields): void {
    const expected = kind === 'custom_tool_call_input' ? 'custom_tool_call' : 'function_call';
    check(open.type === expected && !open.isInputDone, `${kind} is in a ${open.type}`);
    if (step === 'delta') {
      check(textOf(event.delta) !== '', 'a delta is empty');
      open.input += textOf(event.delta);
      return;
    }
    const input = textOf(event.arguments ?? event.input);
    // A call without arguments ends with `{}`.
    check(input === open.input || (open.input === '' && input === '{}'), 'the arguments change');
    open.input = input;
    open.isInputDone = true;
  }

  #done(event: Fields): void {
    const item = fieldsOf(event.item, 'item');
    const index = Number(event.output_index);
    const open = this.#open.get(index);
    check(open !== undefined, `item ${index} ends but is not open`);
    check(item.id === open.id && item.type === open.type, 'the ID or type of an item changes');
    check(!open.isPartOpen, 'an item ends while a part is open');
    this.#open.delete(index);
    this.reading.items[index] = item;
    const parts = open.type === 'reasoning' ? item.summary : item.content;
    if (open.type === 'message' || open.type === 'reasoning') {
      const texts = (Array.isArray(parts) ? parts : []).map((part) => part.text ?? part.refusal);
      check(
        Bun.deepEquals(
          texts,
          open.parts.map(({ text }) => text),
        ),
        'an item differs from its deltas',
      );
    }
    if (!('call_id' in item) || open.type === 'tool_search_call') return;
    check(open.isInputDone, 'a call ends before its arguments');
    check((item.arguments ?? item.input) === open.input, 'a call differs from its deltas');
    const { type, call_id: callId, name, namespace } = item;
    this.reading.tools.push({
      type: textOf(type),
      callId: textOf(callId),
      name: textOf(name),
      namespace,
      input: open.input,
    });
  }

  #end(type: string, response: Fields): void {
    const { reading } = this;
    check(this.#open.size === 0, `${type} arrives while an item is open`);
    check(
      `response.${this.#named(response).status}` === type,
      `${type} has the status ${response.status}`,
    );
    check(Bun.deepEquals(response.output, reading.items), 'the output differs from its items');
    check(response.error === null, 'a completed response has an error');
    reading.status = textOf(response.status);
    const isIncomplete = reading.status === 'incomplete';
    if (isIncomplete) {
      reading.incomplete = textOf(fieldsOf(response.incomplete_details, 'details').reason);
      check(
        ['max_output_tokens', 'content_filter'].includes(reading.incomplete),
        reading.incomplete,
      );
    } else
      check(response.incomplete_details === null, 'a completed response has incomplete_details');
    for (const { type: kind, input } of isIncomplete ? [] : reading.tools) {
      if (kind === 'function_call') fieldsOf(JSON.parse(input), 'arguments');
    }
    const usage = fieldsOf(response.usage, 'usage');
    for (const name of ['input_tokens', 'output_tokens', 'total_tokens']) {
      check(Number.isSafeInteger(usage[name]), `usage.${name} is ${usage[name]}`);
    }
    reading.usage = usage;
    reading.response = response;
    reading.ended = 'complete';
  }
}

export function checkResponsesStream(text: string): ResponsesReading {
  const machine = new Machine();
  readNamedEvents(text, (fields) => machine.take(fields));
  return machine.reading;
}
