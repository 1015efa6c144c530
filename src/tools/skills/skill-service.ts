import { type Static, Type } from 'typebox';
import { Compile } from 'typebox/schema';
import {
  skillDescriptionMax,
  skillInstructionsMax,
  skillsPerTenantMax,
} from '../../core/bounds.ts';
import { type GatewayError, invalidRequest, notFound } from '../../core/errors.ts';
import { validate } from '../../core/schema.ts';
import { didYouMean } from '../../core/text.ts';
import {
  isSkillName,
  type Skill,
  type SkillStore,
  type StoredSkill,
  throwSkillsUnavailable,
} from './skill.ts';

/** What a tenant sends to save a skill, checked. */

const schema = Type.Object(
  { description: Type.String(), instructions: Type.String() },
  { additionalProperties: false },
);
const check = Compile(schema);

/** These turn the reading direction or hide: a reviewer of a skill must see what the model sees. */
const deceptive = /[\u202a-\u202e\u2066-\u2069\u{e0000}-\u{e007f}]/u;
const controls = /(?![\n\t])\p{Cc}/u;
/** A list must not show a gap where a skill is: a text of zero-width spaces is empty, too. */
const visible = /[^\s\p{Cf}]/u;
const lineBreaks = /[\n\t\u2028\u2029]/;

function readSkill(name: string, body: unknown): Skill {
  if (!isSkillName(name)) {
    const message =
      'The name of a skill must be 1 to 64 lower-case letters, digits and hyphens, such as ' +
      '"house-style".';
    throw invalidRequest(message, 'name');
  }
  const input = validate(check, schema, body);
  const description = readText(input, 'description', skillDescriptionMax);
  if (lineBreaks.test(description)) {
    throw invalidRequest('description must be one line.', 'description');
  }
  return { name, description, instructions: readText(input, 'instructions', skillInstructionsMax) };
}

/** Checks the length of the text as it will be kept, which no schema can count. */
function readText(
  input: Static<typeof schema>,
  field: keyof typeof input,
  lengthMax: number,
): string {
  const text = input[field].replaceAll('\r\n', '\n').trim();
  if (!visible.test(text)) throw invalidRequest(`${field} must not be empty.`, field);
  if (text.length > lengthMax) {
    const message = `${field} has ${text.length} characters; at most ${lengthMax} are allowed.`;
    throw invalidRequest(message, field);
  }
  if (!text.isWellFormed() || controls.test(text) || deceptive.test(text)) {
    const message = `${field} must not have control characters or characters that hide text.`;
    throw invalidRequest(message, field);
  }
  return text;
}

/** A skill as a tenant sees it in a list. */
interface SkillSummary {
  readonly name: string;
  readonly description: string;
  readonly source: 'built_in' | 'customer';
  /** `null` for built-in ones. */
  readonly created_at: string | null;
  readonly updated_at: string | null;
}

interface SkillObject extends SkillSummary {
  readonly instructions: string;
}

interface SkillServiceDeps {
  readonly store: SkillStore;
  readonly builtIn: ReadonlyMap<string, Skill>;
  now(): number;
  /** Called after a change, so that this process need not wait for its next look at the store. */
  onChanged(): void;
}

/** What a tenant does with skills, by HTTP or by the command line. */
export class SkillService {
  readonly #deps: SkillServiceDeps;

  constructor(deps: SkillServiceDeps) {
    this.#deps = deps;
  }

  /** The skills a request of this tenant may name: its own, and built-in ones not replaced. */
  async list(tenantId: string): Promise<readonly SkillSummary[]> {
    const { store, builtIn } = this.#deps;
    const own = (await store.list(tenantId).catch(throwSkillsUnavailable)).map(summaryOfOwn);
    const replaced = new Set(own.map(({ name }) => name));
    const shipped = [...builtIn.values()].filter(({ name }) => !replaced.has(name));
    return [...own, ...shipped.map(summaryOfBuiltIn)].sort((a, b) => (a.name < b.name ? -1 : 1));
  }

  async show(tenantId: string, name: string): Promise<SkillObject> {
    const { store, builtIn } = this.#deps;
    // A name that no skill can have is not taken to the store, which may not even hold its bytes.
    if (!isSkillName(name)) throw await this.#unknown(tenantId, name);
    const own = await store.get(tenantId, name).catch(throwSkillsUnavailable);
    if (own) return { ...summaryOfOwn(own), instructions: own.instructions };
    const shipped = builtIn.get(name);
    if (!shipped) throw await this.#unknown(tenantId, name);
    return { ...summaryOfBuiltIn(shipped), instructions: shipped.instructions };
  }

  async put(tenantId: string, name: string, body: unknown): Promise<SkillObject> {
    const { store, now, onChanged } = this.#deps;
    const skill = readSkill(name, body);
    const at = now();
    const row = { ...skill, tenantId, createdAt: at, updatedAt: at };
    const saved = await store.put(row, skillsPerTenantMax).catch(throwSkillsUnavailable);
    if (!saved) {
      const message = `This tenant already has ${skillsPerTenantMax} skills; delete some first.`;
      throw invalidRequest(message, 'name');
    }
    onChanged();
    return { ...summaryOfOwn(saved), instructions: saved.instructions };
  }

  async delete(tenantId: string, name: string): Promise<void> {
    const { store, builtIn, onChanged } = this.#deps;
    if (!isSkillName(name)) throw await this.#unknown(tenantId, name);
    if (await store.remove(tenantId, name).catch(throwSkillsUnavailable)) return onChanged();
    if (!builtIn.has(name)) throw await this.#unknown(tenantId, name);
    const message = `The skill "${name}" is built in: it can be replaced, but not deleted.`;
    throw invalidRequest(message, 'name');
  }

  async #unknown(tenantId: string, name: string): Promise<GatewayError> {
    const known = await this.list(tenantId);
    const names = known.map((skill) => skill.name);
    const hint = didYouMean(name, names) || '.';
    return notFound(`There is no skill "${name.slice(0, 100)}"${hint}`, 'name');
  }
}

function summaryOfOwn(skill: Omit<StoredSkill, 'instructions'>): SkillSummary {
  return {
    name: skill.name,
    description: skill.description,
    source: 'customer',
    created_at: new Date(skill.createdAt).toISOString(),
    updated_at: new Date(skill.updatedAt).toISOString(),
  };
}

function summaryOfBuiltIn({ name, description }: Skill): SkillSummary {
  return { name, description, source: 'built_in', created_at: null, updated_at: null };
}
