/** The state machine of OpenAI's chat streams, as its clients expect it. */
import { check, type Fields, fieldsOf, framesOf, isFields, parseData, textOf } from './events.ts';

export interface OpenAiReading {
  ended: 'complete' | 'error' | 'cut';
  id: string;
  model: string;
  /** The text of choice 0; the fields below are of choice 0, too. */
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
  readonly seen: OpenAiReading = {
    ended: 'cut',
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
  /** Calls of custom tools, whose input is free text instead of JSON. */
  readonly #texts = new Set<unknown>();

  done(): void {
    check(this.seen.ended === 'cut', '[DONE] comes after the end');
    check(this.#finished.size > 0 && this.#open.size === 0, '[DONE] comes before the finish');
    for (const [call, { json }] of this.seen.tools.entries()) {
      if (this.#texts.has(call)) continue;
      const isComplete = this.seen.finishReason === 'length' || isFields(JSON.parse(json));
      check(isComplete, `these arguments are no object: ${json}`);
    }
    this.seen.ended = 'complete';
  }

  take(chunk: Fields): void {
    const { seen } = this;
    check(seen.ended === 'cut', 'a chunk comes after the end');
    check(chunk.object === 'chat.completion.chunk', `a chunk is a ${String(chunk.object)}`);
    const [id, model] = [textOf(chunk.id), textOf(chunk.model)];
    check(seen.id === '' || (seen.id === id && seen.model === model), 'the names change');
    [seen.id, seen.model] = [id, model];
    check(id.startsWith('chatcmpl-') && model !== '', 'a chunk has no names');
    check(Array.isArray(chunk.choices), 'a chunk has no choices');
    const choices = chunk.choices.map((choice) => fieldsOf(choice, 'a choice'));
    if (isFields(chunk.error)) this.#fail(chunk.error, choices);
    else if (isFields(chunk.usage)) this.#count(chunk.usage, choices);
    else {
      check(choices.length > 0, 'a chunk without choices has no usage');
      check(!('usage' in chunk), 'usage is named before the end');
      for (const choice of choices) this.#choose(choice);
    }
  }

  #fail(error: Fields, choices: readonly Fields[]): void {
    check(textOf(error.message) !== '', 'the error has no message');
    check(choices[0]?.finish_reason === 'error', 'the error does not finish its choice');
    this.seen.error = error;
    this.seen.ended = 'error';
  }

  #count(usage: Fields, choices: readonly Fields[]): void {
    check(choices.length === 0, 'usage comes beside choices');
    check(this.#open.size === 0, 'usage comes before the finish');
    check(this.seen.usage === null, 'usage comes twice');
    for (const name of ['prompt_tokens', 'completion_tokens', 'total_tokens']) {
      check(Number.isSafeInteger(usage[name]), `usage.${name} is ${usage[name]}`);
    }
    this.seen.usage = usage;
  }

  #choose({ index, delta, finish_reason: reason }: Fields): void {
    check(Number.isSafeInteger(index), `the choice ${index} has no number`);
    check(!this.#finished.has(index), `choice ${index} goes on behind its finish`);
    this.#open.add(index);
    if (index === 0) this.#read(fieldsOf(delta, 'delta'));
    if (reason === null) return;
    check(textOf(reason) !== '', 'the finish reason is no word');
    check(Object.keys(fieldsOf(delta, 'delta')).length === 0, 'the finish has words beside it');
    this.#open.delete(index);
    this.#finished.add(index);
    if (index === 0) this.seen.finishReason = textOf(reason);
  }

  #read(delta: Fields): void {
    const { seen } = this;
    const { role, tool_calls: calls, reasoning_details: details, annotations } = delta;
    check(role === undefined || role === 'assistant', `the role is ${role}`);
    for (const name of ['content', 'reasoning', 'refusal']) {
      const words = delta[name];
      check(
        words === undefined || words === null || typeof words === 'string',
        `${name} is no text`,
      );
    }
    seen.text += textOf(delta.content);
    seen.reasoning += textOf(delta.reasoning);
    seen.refusal += textOf(delta.refusal);
    if (Array.isArray(details)) seen.details.push(...details.filter(isFields));
    if (Array.isArray(annotations)) seen.annotations.push(...annotations.filter(isFields));
    if (Array.isArray(calls)) for (const call of calls) this.#call(fieldsOf(call, 'a tool call'));
  }

  #call({ index, id, type, function: named, custom }: Fields): void {
    const { tools } = this.seen;
    check(typeof index === 'number' && index <= tools.length, `call ${index} is not the next`);
    check(custom === undefined || named === undefined, 'a call is of two types');
    const body = fieldsOf(custom ?? named, 'the call of a tool');
    const words = textOf(custom ? body.input : body.arguments);
    const open = tools[index];
    if (!open) {
      check(textOf(id) !== '', 'a call has no id');
      check(type === (custom ? 'custom' : 'function'), `the type of a call is ${type}`);
      check(textOf(body.name) !== '', 'a call has no name');
      if (custom) this.#texts.add(index);
      tools.push({ id: textOf(id), name: textOf(body.name), json: words });
      return;
    }
    check(textOf(id) === '' || id === open.id, 'the id of a call changes');
    check(textOf(body.name) === '', 'the name of a call comes twice');
    open.json += words;
  }
}

export function checkOpenAiStream(text: string): OpenAiReading {
  const machine = new Machine();
  for (const { event, data } of framesOf(text)) {
    check(event === null, `an event is named ${event}`);
    if (data === '[DONE]') machine.done();
    else machine.take(parseData(data));
  }
  return machine.seen;
}
