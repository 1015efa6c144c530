/** The state machine of streamed responses, as OpenAI's clients expect it. */
import { check, type Fields, fieldsOf, readNamedEvents, textOf } from './events.ts';

export interface ResponsesReading {
  ended: 'complete' | 'error' | 'cut';
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
  said: string;
  isTold: boolean;
}

interface OpenItem {
  readonly id: string;
  readonly type: string;
  /**
   * The content parts of a message or the summaries of a thought, by index; the last may be open.
   */
  readonly parts: OpenPart[];
  isPartOpen: boolean;
  input: string;
  isInputTold: boolean;
}

const prefixes: Readonly<Record<string, string>> = {
  message: 'msg_',
  reasoning: 'rs_',
  function_call: 'fc_',
  custom_tool_call: 'ctc_',
};

class Machine {
  readonly seen: ResponsesReading = {
    ended: 'cut',
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
    const { seen } = this;
    const isFailure = type === 'response.failed' && seen.error !== null && seen.status === '';
    check(seen.ended === 'cut' || isFailure, `${type} comes after the end`);
    check(event.sequence_number === this.#number, `${type} has number ${event.sequence_number}`);
    this.#number += 1;
    if (type === 'error') this.#fail(event);
    else if (type === 'response.created') this.#begin(event, 'nothing', 'created');
    else if (type === 'response.in_progress') this.#begin(event, 'created', 'running');
    else {
      check(this.#stage === 'running', `${type} comes before response.in_progress`);
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
    check(this.#stage === from, `${String(event.type)} at the wrong place`);
    this.#stage = to;
    const response = this.#named(fieldsOf(event.response, 'response'));
    check(response.status === 'in_progress', `it begins ${String(response.status)}`);
    check(Array.isArray(response.output) && response.output.length === 0, 'output begins empty');
    check(response.usage === null, 'it begins with usage');
  }

  #named(response: Fields): Fields {
    const { seen } = this;
    check(response.object === 'response', 'response is none');
    const [id, model] = [textOf(response.id), textOf(response.model)];
    check(/^resp_\w+$/.test(id) && model !== '', 'a response has no names');
    check(seen.id === '' || (seen.id === id && seen.model === model), 'the names change');
    [seen.id, seen.model] = [id, model];
    check(Number.isSafeInteger(response.created_at), 'created_at is no time');
    return response;
  }

  #fail(event: Fields): void {
    check(textOf(event.message) !== '', 'the error has no message');
    check(textOf(event.code) !== '', 'the error has no code');
    check('param' in event, 'the error has no param');
    // The error is spelt in two ways, and clients read either of them.
    const { message, code } = fieldsOf(event.error, 'error');
    check(message === event.message && code === event.code, 'the error has two meanings');
    this.seen.error = event;
    this.seen.ended = 'error';
  }

  #failed(response: Fields): void {
    check(this.#named(response).status === 'failed', 'a failed response is not');
    const error = fieldsOf(response.error, 'error');
    check(textOf(error.message) !== '' && textOf(error.code) !== '', 'the failure has no words');
    this.seen.error ??= error;
    this.seen.ended = 'error';
    this.seen.status = 'failed';
  }

  #add(event: Fields): void {
    const item = fieldsOf(event.item, 'item');
    const [type, id] = [textOf(item.type), textOf(item.id)];
    check(event.output_index === this.#added, `item ${event.output_index} is not the next`);
    check(id.startsWith(prefixes[type] ?? '') && id !== '', `${type} has the id ${id}`);
    if (type === 'message') {
      check(Array.isArray(item.content) && item.content.length === 0, 'a message begins filled');
      check(item.role === 'assistant', 'a message has no role');
    }
    if (type === 'reasoning') check(Array.isArray(item.summary), 'a thought has no summary');
    const isCall = type.endsWith('_call') && 'call_id' in item;
    if (isCall) check(textOf(item.call_id) !== '', 'a call without an id');
    // A tool search has no name, and its arguments are one object sent at once.
    const isSearch = type === 'tool_search_call';
    if (isCall && !isSearch) check(textOf(item.name) !== '', 'a nameless call');
    const input = isSearch ? item.arguments : (item.arguments ?? item.input ?? '');
    check(Bun.deepEquals(input, isSearch ? {} : ''), 'a call begins filled');
    const others = [...this.#open.values()];
    check(
      others.every((open) => isCall && open.type.endsWith('_call')),
      `${type} in an open item`,
    );
    const open = { id, type, parts: [], isPartOpen: false, input: '', isInputTold: false };
    this.#open.set(this.#added, open);
    this.#added += 1;
  }

  #itemOf(event: Fields, type: string): OpenItem {
    const open = this.#open.get(Number(event.output_index));
    check(open !== undefined, `${type} of item ${event.output_index}, which is not open`);
    check(event.item_id === open.id, `${type} names the item ${event.item_id}`);
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
        this.#words(open, kind, step, event);
        break;
      case 'output_text.annotation':
        this.#annotate(open, event);
        break;
      case 'function_call_arguments':
      case 'custom_tool_call_input':
        this.#input(open, kind, step, event);
        break;
      default:
        check(false, `the event ${type} is unknown`);
    }
  }

  #part(open: OpenItem, step: string, event: Fields): void {
    const part = fieldsOf(event.part, 'part');
    const index = event.content_index ?? event.summary_index;
    const isSummary = part.type === 'summary_text';
    check(isSummary === (open.type === 'reasoning'), `${part.type} in a ${open.type}`);
    if (step === 'added') {
      check(!open.isPartOpen && index === open.parts.length, `part ${index} is not the next`);
      check((part.text ?? part.refusal) === '', 'a part begins filled');
      const type = textOf(part.type);
      if (type === 'output_text') check(Array.isArray(part.annotations), 'no annotations');
      open.parts.push({ type, annotations: [], said: '', isTold: false });
      open.isPartOpen = true;
      return;
    }
    const last = open.parts.at(-1);
    check(open.isPartOpen && last !== undefined, 'a part ends that is not open');
    check(last.isTold && (part.text ?? part.refusal) === last.said, 'a part is not what was said');
    if (last.type === 'output_text') {
      check(Bun.deepEquals(part.annotations, last.annotations), 'annotations are lost');
    }
    open.isPartOpen = false;
  }

  #words(open: OpenItem, kind: string, step: string, event: Fields): void {
    const part = open.parts.at(-1);
    const type = kind === 'reasoning_summary_text' ? 'summary_text' : kind;
    check(open.isPartOpen && part?.type === type, `${kind} outside of its part`);
    const index = event.content_index ?? event.summary_index;
    check(index === open.parts.length - 1, `${kind} of part ${index}`);
    check(!part.isTold, `${kind} behind its end`);
    if (step === 'delta') {
      check(textOf(event.delta) !== '', 'an empty delta');
      part.said += textOf(event.delta);
      return;
    }
    check((event.text ?? event.refusal) === part.said, `${kind}.done is not what was said`);
    part.isTold = true;
    if (type === 'output_text') this.seen.text += part.said;
    else if (type === 'refusal') this.seen.refusal += part.said;
    else this.seen.reasoning += part.said;
  }

  #annotate(open: OpenItem, event: Fields): void {
    const part = open.parts.at(-1);
    check(open.isPartOpen && part?.type === 'output_text', 'an annotation of nothing');
    check(event.annotation_index === part.annotations.length, 'an annotation out of order');
    const annotation = fieldsOf(event.annotation, 'annotation');
    part.annotations.push(annotation);
    this.seen.annotations.push(annotation);
  }

  #input(open: OpenItem, kind: string, step: string, event: Fields): void {
    const wanted = kind === 'custom_tool_call_input' ? 'custom_tool_call' : 'function_call';
    check(open.type === wanted && !open.isInputTold, `${kind} in a ${open.type}`);
    if (step === 'delta') {
      check(textOf(event.delta) !== '', 'an empty delta');
      open.input += textOf(event.delta);
      return;
    }
    const whole = textOf(event.arguments ?? event.input);
    // A call without arguments gets `{}` at the end.
    check(whole === open.input || (open.input === '' && whole === '{}'), 'arguments change');
    open.input = whole;
    open.isInputTold = true;
  }

  #done(event: Fields): void {
    const item = fieldsOf(event.item, 'item');
    const place = Number(event.output_index);
    const open = this.#open.get(place);
    check(open !== undefined, `item ${place} ends, but is not open`);
    check(item.id === open.id && item.type === open.type, 'an item changes its name');
    check(!open.isPartOpen, 'an item ends inside a part');
    this.#open.delete(place);
    this.seen.items[place] = item;
    const parts = open.type === 'reasoning' ? item.summary : item.content;
    if (open.type === 'message' || open.type === 'reasoning') {
      const told = (Array.isArray(parts) ? parts : []).map((part) => part.text ?? part.refusal);
      check(
        Bun.deepEquals(
          told,
          open.parts.map(({ said }) => said),
        ),
        'an item is not what was said',
      );
    }
    if (!('call_id' in item) || open.type === 'tool_search_call') return;
    check(open.isInputTold, 'a call ends before its arguments');
    check((item.arguments ?? item.input) === open.input, 'a call is not what was said');
    const { type, call_id: callId, name, namespace } = item;
    this.seen.tools.push({
      type: textOf(type),
      callId: textOf(callId),
      name: textOf(name),
      namespace,
      input: open.input,
    });
  }

  #end(type: string, response: Fields): void {
    const { seen } = this;
    check(this.#open.size === 0, `${type} comes while an item is open`);
    check(`response.${this.#named(response).status}` === type, `${type} is ${response.status}`);
    check(Bun.deepEquals(response.output, seen.items), 'the output is not what was told');
    check(response.error === null, 'an answer has an error');
    seen.status = textOf(response.status);
    const isIncomplete = seen.status === 'incomplete';
    if (isIncomplete) {
      seen.incomplete = textOf(fieldsOf(response.incomplete_details, 'details').reason);
      check(['max_output_tokens', 'content_filter'].includes(seen.incomplete), seen.incomplete);
    } else check(response.incomplete_details === null, 'a whole answer has details');
    for (const { type: kind, input } of isIncomplete ? [] : seen.tools) {
      if (kind === 'function_call') fieldsOf(JSON.parse(input), 'arguments');
    }
    const usage = fieldsOf(response.usage, 'usage');
    for (const name of ['input_tokens', 'output_tokens', 'total_tokens']) {
      check(Number.isSafeInteger(usage[name]), `usage.${name} is ${usage[name]}`);
    }
    seen.usage = usage;
    seen.response = response;
    seen.ended = 'complete';
  }
}

export function checkResponsesStream(text: string): ResponsesReading {
  const machine = new Machine();
  readNamedEvents(text, (fields) => machine.take(fields));
  return machine.seen;
}
