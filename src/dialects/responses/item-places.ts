import { outputItemsMax } from '../../core/bounds.ts';
import { type Fields, isObject, isText } from '../../core/json.ts';

/**
 * Finds the item of the output that an event is about: by its place, and by its id only if the
 * place is left out, because some gateways change the ids from event to event.
 */
export class ItemPlaces {
  readonly #byId = new Map<string, number>();
  #last = -1;
  /** The last item has neither an id nor a call id, and its end has not come yet. */
  #isNameless = false;

  of({ type, output_index: place, item, item_id: of }: Fields): unknown {
    const isItem = isObject(item);
    const id = isItem ? nameOf(item) : of;
    if (typeof place === 'number') {
      // Some servers send deltas of items that they never announced.
      if (isItem || isText(of)) this.#remember(place, id);
      return place;
    }
    const known = isText(id) ? this.#byId.get(id) : undefined;
    if (known !== undefined) return known;
    if (isItem) this.#begin(id, type !== 'response.output_item.added');
    return Math.max(this.#last, 0);
  }

  /** The place of an item in the last event's output; unlike the events, that list has no gaps. */
  ofWhole(item: Fields, at: number): number {
    const id = nameOf(item);
    return (isText(id) ? this.#byId.get(id) : undefined) ?? at;
  }

  /** Begins a new item, unless this is the end of the last one and neither has an id. */
  #begin(id: unknown, isEnd: boolean): void {
    const isAnother = isText(id) || !isEnd || !this.#isNameless;
    this.#isNameless = !isText(id) && !isEnd;
    if (isAnother) this.#remember(this.#last + 1, id);
  }

  /** Only the first id of each place is kept. */
  #remember(place: number, id: unknown): void {
    if (place <= this.#last || this.#byId.size >= outputItemsMax) return;
    this.#last = place;
    if (isText(id)) this.#byId.set(id, place);
  }
}

/** Earlier versions of llama.cpp give a call no id of its own, only a `call_id`. */
function nameOf({ id, call_id: call }: Fields): unknown {
  return isText(id) ? id : call;
}
