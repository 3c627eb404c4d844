// What a job prints: asked of its hosts each second while it runs. The field shows those lines alone that have a text.
'use strict'

const output = document.getElementById('output')
const [form, attempts, wanted, said, lines] = ['form', 'select', 'input', '[role=status]', 'pre'].map((each) => output.querySelector(each))
const AGAIN = 1000, AWAY = 5000  // ms to the next question, and while Redis is away
const MOST = 4e6  // characters that are kept
let text = '', turn = 0

// Without colours, moves of the cursor and whatever else nobody would see.
const plain = (raw) => raw.replace(/\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(\x07|\x1b\\)?/g, '')
  .replace(/\r\n?/g, '\n').replace(/[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]/g, ' ')
const fitting = (part) => {
  const word = wanted.value.toLowerCase()
  return word && part ? part.match(/[^\n]*\n|[^\n]+$/g).filter((line) => line.toLowerCase().includes(word)).join('') : part
}

function add (part) {
  lines.hidden = false  // what is hidden cannot be scrolled
  const below = lines.scrollHeight - lines.scrollTop - lines.clientHeight < 40
  text += part
  if (text.length > MOST) { text = text.slice(-MOST / 2); lines.textContent = fitting(text) } else lines.append(fitting(part))
  if (below) lines.scrollTop = lines.scrollHeight
}

async function follow () {
  const mine = ++turn
  let after = {}, place = '', ends = 0
  text = lines.textContent = ''
  while (mine === turn) {
    let pause = AGAIN
    try {
      const query = new URLSearchParams({ attempt: attempts.value, after: JSON.stringify(after) })
      const reply = document.hidden ? null : await fetch(`${output.dataset.output}?${query}`, { redirect: 'error' })
      const found = reply && await reply.json()
      if (mine !== turn) return
      const note = found?.error ?? found?.note ?? said.textContent
      if (note !== said.textContent) said.textContent = note  // otherwise it would be read out each second
      if (reply?.ok) {
        after = found.after
        for (const part of found.parts) {
          const here = `attempt ${part.attempt} on ${part.host}`
          if (here !== place) add(`-- ${place = here}, ${new Date(part.at).toLocaleString()}\n`)
          add(plain(part.text))
          if (![...attempts.options].some((each) => each.value === String(part.attempt))) attempts.add(new Option(part.attempt))
        }
        lines.hidden = !text
        document.getElementById('printed')?.toggleAttribute('hidden', Boolean(text))
        if (found.more) pause = 0
        else if (found.ended && ends++) return  // once more after its end: by then all is written
      } else if (reply) {
        if (reply.status < 500) return
        pause = AWAY
      }
    } catch { pause = AWAY }
    await new Promise((resolve) => setTimeout(resolve, pause))
  }
}

wanted.closest('label').hidden = false
wanted.addEventListener('input', () => { lines.textContent = fitting(text) })
attempts.addEventListener('change', follow)
form.addEventListener('submit', (event) => { event.preventDefault(); follow() })
follow()
