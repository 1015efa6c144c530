import { ReadCache } from '../../core/bounded-map.ts';
import { cachedSkillsMax, skillsPerRequestMax } from '../../core/bounds.ts';
import { type GatewayError, invalidRequest } from '../../core/errors.ts';
import { didYouMean } from '../../core/text.ts';
import { isSkillName, type Skill, type SkillStore, throwSkillsUnavailable } from './skill.ts';

/**
 * The skills that requests ask for, ready in memory. `forget()` empties it when the directory's
 * version moved, so a change reaches every process within one poll.
 */
export class SkillResolver {
  readonly #store: Pick<SkillStore, 'get' | 'list'>;
  readonly #builtIn: ReadonlyMap<string, Skill>;
  readonly #cached = new ReadCache<Skill | undefined>(cachedSkillsMax);

  constructor(store: Pick<SkillStore, 'get' | 'list'>, builtIn: ReadonlyMap<string, Skill>) {
    this.#store = store;
    this.#builtIn = builtIn;
  }

  /**
   * The skills of these names as this tenant has them, in the order of their first mention. A
   * tenant's own stands before a built-in one of the same name; nobody else's is ever looked at.
   */
  async resolve(tenantId: string, names: readonly string[]): Promise<readonly Skill[]> {
    if (names.length > skillsPerRequestMax) {
      const limit = `at most ${skillsPerRequestMax} are allowed`;
      throw invalidRequest(`skills has ${names.length} items; ${limit}.`, 'skills');
    }
    const unique = [...new Set(names)];
    const found = await Promise.all(unique.map((name) => this.#find(tenantId, name)));
    const missing = unique.find((_, at) => found[at] === undefined);
    if (missing !== undefined) throw await this.#unknown(tenantId, missing, names.indexOf(missing));
    return found.filter((skill) => skill !== undefined);
  }

  /** Drops everything remembered; the next request for each skill asks the store. */
  forget(): void {
    this.#cached.clear();
  }

  #find(tenantId: string, name: string): Skill | Promise<Skill | undefined> | undefined {
    if (!isSkillName(name)) return undefined;
    const key = `${tenantId} ${name}`;
    return this.#cached.get(key) ?? this.#cached.set(key, this.#read(tenantId, name));
  }

  async #read(tenantId: string, name: string): Promise<Skill | undefined> {
    const own = await this.#store.get(tenantId, name).catch(throwSkillsUnavailable);
    if (!own) return this.#builtIn.get(name);
    return { name, description: own.description, instructions: own.instructions };
  }

  async #unknown(tenantId: string, name: string, at: number): Promise<GatewayError> {
    const own = await this.#store.list(tenantId).catch(throwSkillsUnavailable);
    const names = [...own.map((skill) => skill.name), ...this.#builtIn.keys()];
    const hint = didYouMean(name, names) || '.';
    return invalidRequest(`There is no skill "${name.slice(0, 100)}"${hint}`, `skills[${at}]`);
  }
}
