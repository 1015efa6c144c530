import { outputItemsMax } from '../../core/bounds.ts';
import { type Fields, isObject, isText } from '../../core/json.ts';

/**
 * Which item of the output an event is about. Its place says so; its id only where the place is
 * left out, because some gateways change the ids from event to event.
 */
export class ItemPlaces {
  readonly #byId = new Map<string, number>();
  #last = -1;
  /** The last item has no name of any kind, and its end was not told yet. */
  #isNameless = false;

  of({ type, output_index: place, item, item_id: of }: Fields): unknown {
    const isItem = isObject(item);
    const id = isItem ? nameOf(item) : of;
    if (typeof place === 'number') {
      // Some servers tell words of items that they never announce.
      if (isItem || isText(of)) this.#remember(place, id);
      return place;
    }
    const known = isText(id) ? this.#byId.get(id) : undefined;
    if (known !== undefined) return known;
    if (isItem) this.#begin(id, type !== 'response.output_item.added');
    return Math.max(this.#last, 0);
  }

  /** The place of an item of the whole output, which has no gaps where events left places empty. */
  ofWhole(item: Fields, at: number): number {
    const id = nameOf(item);
    return (isText(id) ? this.#byId.get(id) : undefined) ?? at;
  }

  /** A new item; unless this is the end of the one before, where neither has a name to tell by. */
  #begin(id: unknown, isEnd: boolean): void {
    const isAnother = isText(id) || !isEnd || !this.#isNameless;
    this.#isNameless = !isText(id) && !isEnd;
    if (isAnother) this.#remember(this.#last + 1, id);
  }

  /** One id for each place is enough. */
  #remember(place: number, id: unknown): void {
    if (place <= this.#last || this.#byId.size >= outputItemsMax) return;
    this.#last = place;
    if (isText(id)) this.#byId.set(id, place);
  }
}

/** Earlier versions of llama.cpp know a call only by what its result will name. */
function nameOf({ id, call_id: call }: Fields): unknown {
  return isText(id) ? id : call;
}
