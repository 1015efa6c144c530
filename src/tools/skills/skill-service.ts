import { Compile } from 'typebox/schema';
import {
  type NewSkillRequest,
  newSkillSchema,
  type SkillObject,
  type SkillSummaryObject,
} from '../../contract/skills.ts';
import {
  skillDescriptionMax,
  skillInstructionsMax,
  skillsPerTenantMax,
} from '../../core/bounds.ts';
import { type GatewayError, invalidRequest, notFound } from '../../core/errors.ts';
import { validate } from '../../core/schema.ts';
import {
  isSkillName,
  type Skill,
  type SkillStore,
  type StoredSkill,
  throwSkillsUnavailable,
  unknownSkillMessage,
} from './skill.ts';

const check = Compile(newSkillSchema);

/** Characters that reorder or hide text. A reviewer must see what the model sees. */
const deceptive = /[\u202a-\u202e\u2066-\u2069\u{e0000}-\u{e007f}]/u;
const controls = /(?![\n\t])\p{Cc}/u;
/** Text with only zero-width spaces counts as empty, because it would look like a gap in lists. */
const visible = /[^\s\p{Cf}]/u;
const lineBreaks = /[\n\t\u2028\u2029]/;

function readSkill(name: string, body: unknown): Skill {
  if (!isSkillName(name)) {
    const message =
      'The name of a skill must be 1 to 64 lowercase letters, digits, and hyphens, such as ' +
      '"house-style".';
    throw invalidRequest(message, 'name');
  }
  const input = validate(check, newSkillSchema, body);
  const description = readText(input, 'description', skillDescriptionMax);
  if (lineBreaks.test(description)) {
    throw invalidRequest('description must be one line.', 'description');
  }
  return { name, description, instructions: readText(input, 'instructions', skillInstructionsMax) };
}

/** Checks the text after normalization, which a schema can't do. */
function readText(input: NewSkillRequest, field: keyof NewSkillRequest, lengthMax: number): string {
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

interface SkillServiceDeps {
  readonly store: SkillStore;
  readonly builtIn: ReadonlyMap<string, Skill>;
  now(): number;
  /** Called after a change, so that this process doesn't wait for its next poll of the store. */
  onChanged(): void;
}

/** Manages a tenant's skills, for the API and the command line. */
export class SkillService {
  readonly #deps: SkillServiceDeps;

  constructor(deps: SkillServiceDeps) {
    this.#deps = deps;
  }

  /** Lists the skills that a tenant's requests may name: the tenant's and the built-in ones. */
  async list(tenantId: string): Promise<readonly SkillSummaryObject[]> {
    const { store, builtIn } = this.#deps;
    const stored = (await store.list(tenantId).catch(throwSkillsUnavailable)).map(summaryOfStored);
    const replaced = new Set(stored.map(({ name }) => name));
    const shipped = [...builtIn.values()].filter(({ name }) => !replaced.has(name));
    return [...stored, ...shipped.map(summaryOfBuiltIn)].sort((a, b) => (a.name < b.name ? -1 : 1));
  }

  async show(tenantId: string, name: string): Promise<SkillObject> {
    const { store, builtIn } = this.#deps;
    // Don't query the store for an invalid name, which may have bytes that it can't hold.
    if (!isSkillName(name)) throw await this.#unknown(tenantId, name);
    const stored = await store.get(tenantId, name).catch(throwSkillsUnavailable);
    if (stored) return { ...summaryOfStored(stored), instructions: stored.instructions };
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
      const message = `This tenant already has ${skillsPerTenantMax} skills. Delete some first.`;
      throw invalidRequest(message, 'name');
    }
    onChanged();
    return { ...summaryOfStored(saved), instructions: saved.instructions };
  }

  async delete(tenantId: string, name: string): Promise<void> {
    const { store, builtIn, onChanged } = this.#deps;
    if (!isSkillName(name)) throw await this.#unknown(tenantId, name);
    if (await store.remove(tenantId, name).catch(throwSkillsUnavailable)) return onChanged();
    if (!builtIn.has(name)) throw await this.#unknown(tenantId, name);
    const message = `The skill "${name}" is built in. It can be replaced, but not deleted.`;
    throw invalidRequest(message, 'name');
  }

  async #unknown(tenantId: string, name: string): Promise<GatewayError> {
    const known = await this.list(tenantId);
    const names = known.map((skill) => skill.name);
    return notFound(unknownSkillMessage(name, names), 'name');
  }
}

function summaryOfStored(skill: Omit<StoredSkill, 'instructions'>): SkillSummaryObject {
  return {
    name: skill.name,
    description: skill.description,
    source: 'customer',
    created_at: new Date(skill.createdAt).toISOString(),
    updated_at: new Date(skill.updatedAt).toISOString(),
  };
}

function summaryOfBuiltIn({ name, description }: Skill): SkillSummaryObject {
  return { name, description, source: 'built_in', created_at: null, updated_at: null };
}
