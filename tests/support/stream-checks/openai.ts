/** Checks OpenAI chat streams with the state machine that its clients expect. */
import { check, type Fields, fieldsOf, framesOf, isFields, parseData, textOf } from './events.ts';

export interface OpenAiReading {
  ended: 'complete' | 'error' | 'truncated';
  id: string;
  model: string;
  /** The text of choice 0. The fields below also belong to choice 0. */
  text: string;
  reasoning: string;
  refusal: string;
  readonly tools: { id: string; name: string; json: string }[];
  readonly details: Fields[];
  readonly annotations: Fields[];
  finishReason: string | null;
  usage: Fields | null;
  error: Fields | null;
}

class Machine {
  readonly reading: OpenAiReading = {
    ended: 'truncated',
    id: '',
    model: '',
    text: '',
    reasoning: '',
    refusal: '',
    tools: [],
    details: [],
    annotations: [],
    finishReason: null,
    usage: null,
    error: null,
  };
  readonly #open = new Set<unknown>();
  readonly #finished = new Set<unknown>();
  /** Calls of custom tools, whose input is text instead of JSON. */
  readonly #customCalls = new Set<unknown>();

  done(): void {
    check(this.reading.ended === 'truncated', '[DONE] follows the end');
    check(this.#finished.size > 0 && this.#open.size === 0, '[DONE] precedes a finish reason');
    for (const [call, { json }] of this.reading.tools.entries()) {
      if (this.#customCalls.has(call)) continue;
      const isComplete = this.reading.finishReason === 'length' || isFields(JSON.parse(json));
      check(isComplete, `the arguments are not an object: ${json}`);
    }
    this.reading.ended = 'complete';
  }

  take(chunk: Fields): void {
    const { reading } = this;
    check(reading.ended === 'truncated', 'a chunk follows the end');
    if (isFields(chunk.error)) {
      this.#fail(chunk.error, Object.keys(chunk));
      return;
    }
    check(
      chunk.object === 'chat.completion.chunk',
      `the object of a chunk is ${String(chunk.object)}`,
    );
    const [id, model] = [textOf(chunk.id), textOf(chunk.model)];
    check(
      reading.id === '' || (reading.id === id && reading.model === model),
      'the ID or model changes',
    );
    [reading.id, reading.model] = [id, model];
    check(id.startsWith('chatcmpl-') && model !== '', 'a chunk has no ID or model');
    check(Array.isArray(chunk.choices), 'a chunk has no choices');
    const choices = chunk.choices.map((choice) => fieldsOf(choice, 'a choice'));
    if (isFields(chunk.usage)) this.#count(chunk.usage, choices);
    else {
      check(choices.length > 0, 'a chunk without choices has no usage');
      check(!('usage' in chunk), 'a chunk with choices has usage');
      for (const choice of choices) this.#choose(choice);
    }
  }

  #fail(error: Fields, names: readonly string[]): void {
    check(textOf(error.message) !== '', 'the error has no message');
    check(names.length === 1, 'the error has fields of a chunk');
    this.reading.error = error;
    this.reading.ended = 'error';
  }

  #count(usage: Fields, choices: readonly Fields[]): void {
    check(choices.length === 0, 'a chunk has both usage and choices');
    check(this.#open.size === 0, 'usage precedes a finish reason');
    check(this.reading.usage === null, 'usage is repeated');
    for (const name of ['prompt_tokens', 'completion_tokens', 'total_tokens']) {
      check(Number.isSafeInteger(usage[name]), `usage.${name} is ${usage[name]}`);
    }
    this.reading.usage = usage;
  }

  #choose({ index, delta, finish_reason: reason }: Fields): void {
    check(Number.isSafeInteger(index), `the choice index ${index} is not an integer`);
    check(!this.#finished.has(index), `choice ${index} continues after its finish reason`);
    this.#open.add(index);
    if (index === 0) this.#read(fieldsOf(delta, 'delta'));
    if (reason === null) return;
    check(textOf(reason) !== '', 'the finish reason is not a string');
    check(
      Object.keys(fieldsOf(delta, 'delta')).length === 0,
      'the finish reason comes with a delta',
    );
    this.#open.delete(index);
    this.#finished.add(index);
    if (index === 0) this.reading.finishReason = textOf(reason);
  }

  #read(delta: Fields): void {
    const { reading } = this;
    const { role, tool_calls: calls, reasoning_details: details, annotations } = delta;
    check(role === undefined || role === 'assistant', `the role is ${role}`);
    for (const name of ['content', 'reasoning', 'refusal']) {
      const value = delta[name];
      check(
        value === undefined || value === null || typeof value === 'string',
        `${name} is not a string`,
      );
    }
    reading.text += textOf(delta.content);
    reading.reasoning += textOf(delta.reasoning);
    reading.refusal += textOf(delta.refusal);
    if (Array.isArray(details)) reading.details.push(...details.filter(isFields));
    if (Array.isArray(annotations)) reading.annotations.push(...annotations.filter(isFields));
    if (Array.isArray(calls)) for (const call of calls) this.#call(fieldsOf(call, 'a tool call'));
  }

  #call({ index, id, type, function: named, custom }: Fields): void {
    const { tools } = this.reading;
    check(
      typeof index === 'number' && index <= tools.length,
      `the call index ${index} is not the next one`,
    );
    check(custom === undefined || named === undefined, 'a call has two types');
    const body = fieldsOf(custom ?? named, 'a tool call');
    const piece = textOf(custom ? body.input : body.arguments);
    const open = tools[index];
    if (!open) {
      check(textOf(id) !== '', 'a call has no ID');
      check(type === (custom ? 'custom' : 'function'), `the type of a call is ${type}`);
      check(textOf(body.name) !== '', 'a call has no name');
      if (custom) this.#customCalls.add(index);
      tools.push({ id: textOf(id), name: textOf(body.name), json: piece });
      return;
    }
    check(textOf(id) === '' || id === open.id, 'the ID of a call changes');
    check(textOf(body.name) === '', 'the name of a call is repeated');
    open.json += piece;
  }
}

export function checkOpenAiStream(text: string): OpenAiReading {
  const machine = new Machine();
  for (const { event, data } of framesOf(text)) {
    check(event === null, `an event has the name ${event}`);
    if (data === '[DONE]') machine.done();
    else machine.take(parseData(data));
  }
  return machine.reading;
}
